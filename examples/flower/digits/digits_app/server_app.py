"""What the SuperLink runs: rounds of masked averaging, and a test after each."""

import fl.flower
from digits_app.task import SETTINGS, test_records

app = fl.flower.server_app(**SETTINGS, rounds=3, test_set=test_records)
