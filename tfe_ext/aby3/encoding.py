"""Fixed-point encodings for ABY3, which stay as they are."""

from typing import Any

from extensions.errors import ArgumentError
from extensions.ring.fixed_point import check_frac_bits

from tf_encrypted.tensor.fixed import FixedpointConfig


class Constant(FixedpointConfig):
    """The host's configuration, of which nothing can be changed: shares depend on it."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self):
            raise ArgumentError(
                f"fixedpoint_config.{name}",
                value,
                "shares and graphs depend on it",
                "Make another protocol: tfe_ext.ABY3(fixedpoint_config=...).",
                code="fixed",
            )
        super().__setattr__(name, value)


def as_constant(config: FixedpointConfig) -> Constant:
    """Returns the configuration as it is now."""
    return Constant(**vars(config))


def fixed64(frac_bits: int) -> Constant:
    """Returns 64 bits with that many after the point; products are right while below 2^61."""
    return Constant(
        scaling_base=2,
        nbits=64,
        precision_integral=31 - frac_bits,
        precision_fractional=check_frac_bits(frac_bits),
        matmul_threshold=256,
        truncation_gap=0,
        use_noninteractive_truncation=False,
    )


fixed64_f20 = fixed64(20)
"""64 bits with 20 after the point; products are right while they stay below 2^22 in size."""
