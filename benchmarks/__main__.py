"""``python -m benchmarks NAME``: one module a table; results go to benchmarks/results."""

import typer

from benchmarks import accounting, listing, providers, report
from benchmarks.accuracy import command as accuracy
from benchmarks.audit import command as audit
from benchmarks.federated import accuracy as fl_accuracy
from benchmarks.federated import latency as fl_latency
from benchmarks.federated import paillier
from benchmarks.federated.leakage import command as fl_leakage
from benchmarks.federated.privacy import dp, signds
from benchmarks.inverse_sqrt import error, runtime
from benchmarks.network import command as network
from benchmarks.noise import command as noise
from benchmarks.steps import dpsgd_scaling, dpsgd_step, first_step, losses, training
from benchmarks.tabular import command as tabular
from extensions.cli.parameters import with_options

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)
app.command("inverse-sqrt-error")(error.main)
app.command("inverse-sqrt-runtime")(runtime.main)
app.command("accounting")(accounting.main)
app.command("dpsgd-train")(with_options(training.main))
app.command("providers")(providers.main)
app.command("dpsgd-step")(dpsgd_step.main)
app.command("first-step")(first_step.main)
app.command("accuracy")(accuracy.main)
app.command("audit")(audit.main)
app.command("dpsgd-scaling")(dpsgd_scaling.main)
app.command("noise")(noise.main)
app.command("losses")(losses.main)
app.command("fl-accuracy")(with_options(fl_accuracy.main))
app.command("fl-latency")(fl_latency.main)
app.command("fl-leakage")(fl_leakage.main)
app.command("fl-dp")(dp.main)
app.command("fl-signds")(signds.main)
app.command("paillier")(paillier.main)
app.command("network", context_settings={"allow_interspersed_args": False})(network.main)
app.command("tables")(tabular.main)
app.command("report")(report.main)
app.command("list")(listing.main)

if __name__ == "__main__":
    app()
