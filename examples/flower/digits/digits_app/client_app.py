"""What each SuperNode does: it trains on its own records, and takes part in the masked sum."""

import fl.flower
from digits_app.task import SETTINGS, own_records, train

app = fl.flower.client_app(**SETTINGS, records=own_records, train=train)
