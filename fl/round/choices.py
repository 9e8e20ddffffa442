"""What the settings of a run may say in words; known before torch is imported."""

from typing import Literal

Exchange = Literal["delta", "weights"]
Weighting = Literal["records", "equal"]
Statistics = Literal["exchange", "keep"]
OnFailure = Literal["raise", "skip"]
Keep = Literal["none", "sizes", "all"]
