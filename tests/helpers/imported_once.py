"""A module that knows where it was imported."""

import os

PID = os.getpid()
