"""What the `pea` command does with records and features before a run, and options from a file."""

import re
import stat
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from extensions.data.datasets import read_party_file
from extensions.data.datasets.records import KINDS
from tests.extensions.cli.test_cli_parties import NOISE, free_address
from tests.helpers.commands import call, pea, report_of, started
from tests.helpers.refused import refused

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
]

CLEAR = ("train", "--backend", "clear", *NOISE, "--steps", 2)


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def table(path: Path, seed: int, records: int = 30) -> Path:
    """Returns a file in which the label is the larger of two numbers; a third is of no use."""
    draws = np.random.default_rng(seed).uniform(-1, 1, (records, 3))
    rows = [f"{a:.6f},{b:.6f},{c:.6f},{'left' if a > b else 'right'}" for a, b, c in draws]
    path.write_text("\n".join(["a,b,c,side", *rows]) + "\n")
    return path


def test_each_party_brings_its_own_table(tmp_path):
    files = [table(tmp_path / f"{rank}.csv", rank, 200) for rank in range(2)]
    own = [part for rank in range(2) for part in ("--data-for-party", f"{rank}={files[rank]}")]
    path = tmp_path / "report.json"
    done = pea(
        *("train", "--backend", "clear", "--no-dp", "--parties", 2, *own, "--label", "side"),
        *("--sample-rate", 1, "--steps", 30, "--json", path),
    )
    assert done.returncode == 0, done.stderr
    assert "classes: 0 = left, 1 = right" in done.stderr
    report = report_of(path)
    assert (report["data"], report["features"]) == ("own records", "raw")
    assert report["accuracy"] > 0.9
    missing = pea(*CLEAR, "--parties", 2, *own[:2], "--label", "side")
    assert missing.stderr.startswith("pea: --data-for-party ")
    assert "Party 1 has none" in missing.stderr


@pytest.mark.long
def test_features_are_taken_before_parties_compute_and_material_is_made_for_them(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    common = (*NOISE, "--parties", 2, "--steps", 1, "--features", "tests.helpers.extractors:halves")
    done = pea("prepare", *common, "--out", tmp_path / "material")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "cache").exists()
    path = tmp_path / "report.json"
    done = pea("train", *common, "--material", tmp_path / "material", "--json", path)
    assert done.returncode == 0, done.stderr
    report = report_of(path)
    assert (report["backend"], report["features"]) == ("crypten", "tests.helpers.extractors:halves")
    files = list((tmp_path / "cache" / "pea" / "features").iterdir())
    assert len(files) == 2 * 2
    assert sum(file.stat().st_size for file in files) > 1797 * 32 * 4


def test_a_schema_is_drafted_edited_and_trained_by(tmp_path):
    files = [table(tmp_path / f"{rank}.csv", rank, 200) for rank in range(2)]
    lines = [line.split(",") for line in files[1].read_text().splitlines()]
    files[1].write_text("\n".join(",".join(line[::-1]) for line in lines) + "\n")
    file = tmp_path / "schema.toml"
    done = pea("schema", "--from", files[0], "--target", "side", "--out", file)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "reveal some of them" in " ".join(done.stderr.split())
    own = [part for rank in range(2) for part in ("--data-for-party", f"{rank}={files[rank]}")]
    command = ("train", "--backend", "clear", "--no-dp", "--parties", 2, *own, "--schema", file)
    path = tmp_path / "report.json"
    command = (*command, "--sample-rate", 1, "--steps", 30, "--json", path)
    with refused("basis", "choice", value="draft"):
        run(*command)
    with refused("label", "conflict", "side"):
        run(*command, "--label", "side")
    text = re.sub("range = .*", "range = [-0.5, 0.5]", file.read_text())
    file.write_text(text.replace('basis = "draft"', 'basis = "data"'))
    done = pea(*command)
    assert done.returncode == 0, done.stderr
    assert "classes: 0 = left, 1 = right" in done.stderr
    assert "(shown here only): a 1" in done.stderr.replace("\n", " ")
    assert "basis is data" in done.stderr
    assert report_of(path)["accuracy"] > 0.9
    assert "clipped" not in path.read_text()


def test_a_table_with_semicolons_dates_and_names_is_drafted_trained_by_and_predicted(tmp_path):
    draws = np.random.default_rng(1).uniform(-1, 1, (200, 2))
    rows = [
        f"p{i};2020-01-{i % 28 + 1:02};{a:.3f};{b:.3f};x;{'yes' if a > b else 'no'}".replace(
            ".", ","
        )
        for i, (a, b) in enumerate(draws)
    ]
    own, file, report = (tmp_path / name for name in ("own.csv", "schema.toml", "report.json"))
    own.write_text("\n".join(["name;seen;a;b;noise;side", *rows]))
    done = pea("schema", "--from", own, "--target", "side", "--exclude", "noise", "--out", file)
    assert done.returncode == 0, done.stderr
    assert [line.split(",")[0] for line in done.stderr.splitlines() if "left out" in line] == [
        "left out: noise",
        "left out: name",
        "left out: seen",
    ]
    text = file.read_text()
    assert text.count("# Left out: ") == 3
    file.write_text(text.replace('basis = "draft"', 'basis = "public"'))
    command = ("train", "--backend", "clear", "--no-dp", "--data", f"csv:{own}", "--schema", file)
    steps = ("--steps", 30, "--sample-rate", 1)  # no draw of batches decides what is learnt
    done = pea(*command, *steps, "--json", report, "--save", tmp_path / "model")
    assert done.returncode == 0, done.stderr
    assert report_of(report)["accuracy"] > 0.9
    said, model = tmp_path / "said.csv", tmp_path / "model" / "model.npz"
    done = pea("predict", "--model", model, "--records", own, "--out", said)
    assert done.returncode == 0, done.stderr
    predictions = [line.split(",")[1] for line in said.read_text().splitlines()[1:]]
    agree = [row.endswith(f";{each}") for row, each in zip(rows, predictions, strict=True)]
    assert np.mean(agree) > 0.9


REGRESSION = """
basis = "public"
[target]
column = "cost"
range = [0, 100]
outside = "clip"
[unit]
column = "who"
rows = 2
[columns.age]
range = [20, 80]
[columns.kind]
categories = ["a", "b"]
missing = "indicator"
"""


def costs(path: Path, seed: int, people: int = 60) -> Path:
    """Returns a file of costs that follow from age and kind; persons have one to three records."""
    draw = np.random.default_rng(seed)
    lines = ["who,cost,kind,age"]
    for person in range(people):
        for _ in range(person % 3 + 1):
            age, kind = draw.uniform(20, 80), draw.integers(0, 2)
            cost = 1.2 * (age - 20) + 20 * kind + draw.normal(0, 3)
            lines.append(f"p{person},{cost:.2f},{'ab'[kind] if person % 10 else ''},{age:.1f}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_number_is_learnt_with_an_epsilon_of_persons(tmp_path):
    own = [
        part
        for rank in range(2)
        for part in ("--data-for-party", f"{rank}={costs(tmp_path / f'{rank}.csv', rank)}")
    ]
    (tmp_path / "schema.toml").write_text(REGRESSION)
    path = tmp_path / "report.json"
    command = ("train", "--backend", "clear", "--parties", 2, *own, "--json", path)
    command = (*command, "--schema", tmp_path / "schema.toml", "--delta", 1e-3)
    with refused("loss", "choice", "sigmoid"):
        run(*command, "--epsilon", 8)
    done = pea(*command, "--epsilon", 8, "--loss", "squared", "--save", tmp_path / "model")
    assert done.returncode == 0, done.stderr
    assert "left out at party 0 (shown here only): 20 records" in done.stderr.replace("\n", " ")
    report = report_of(path)
    assert (report["steps"], report["sample_rate"]) == (40, 1.0)
    assert report["unit"].startswith("a person of column who, with at most 2 rows")
    assert (report["accuracy"], report["auc"]) == (None, None)
    assert report["rmse"] < 0.6 * report["rmse_of_mean"]
    assert 15 < report["rmse_of_mean"] < 35
    said = tmp_path / "said.csv"
    model = tmp_path / "model" / "model.npz"
    pea("predict", "--model", model, "--records", tmp_path / "0.csv", "--out", said)
    name, *rows = said.read_text().splitlines()
    assert (name, len(rows)) == ("record,prediction", 120)
    known = [float(x.split(",")[1]) for x in (tmp_path / "0.csv").read_text().splitlines()[1:]]
    apart = np.array([float(row.split(",")[1]) for row in rows]) - np.clip(known, 0, 100)
    assert np.sqrt(np.mean(apart**2)) < 0.7 * report["rmse_of_mean"]


EXTRACTOR = ("--features", "tests.helpers.extractors:halves")


def raw_and_ready(tmp_path: Path) -> tuple[Path, Path]:
    """Returns party 0's raw records, and party 1's features."""
    done = pea("split", "--parties", 2, "--features", "none", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    raw = tmp_path / "party-0.npz"
    assert read_party_file(raw, KINDS).train_x.shape == (719, 8, 8)
    ready = tmp_path / "ready" / "party-1.npz"
    done = pea(*("features", "--records", tmp_path / "party-1.npz", "--out", ready, *EXTRACTOR))
    assert (done.returncode, done.stdout) == (0, f"{ready} 719+179 x 32\n"), done.stderr
    assert stat.S_IMODE(ready.stat().st_mode) == 0o600
    return raw, ready


def test_features_are_taken_from_records_that_were_split_raw(tmp_path):
    _, ready = raw_and_ready(tmp_path)
    rows = read_party_file(ready).train_x
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0)


@pytest.mark.long
def test_parties_take_features_themselves_or_before(tmp_path):
    raw, ready = raw_and_ready(tmp_path)
    common = ("--world-size", 2, "--rendezvous", f"tcp://{free_address()}", "--provider", "tfp")
    common = ("party", *common, *NOISE, "--steps", 2)
    with ExitStack() as stack:
        commands = [
            stack.enter_context(started(*common, "--rank", 0, "--records", raw, *EXTRACTOR)),
            stack.enter_context(started(*common, "--rank", 1, "--records", ready)),
        ]
        for command in commands:
            done = command.finish()
            assert done.returncode == 0, done.stderr
    refused = pea(*common, "--rank", 0, "--records", raw)
    assert "--records must be " in refused.stderr
    assert "`pea features` or --features" in refused.stderr


def test_one_party_turns_its_table_into_features(tmp_path):
    own = table(tmp_path / "own.csv", 3)
    common = ("features", "--records", own, "--out", tmp_path / "own.npz", "--features", "raw")
    with refused("classes", "missing", None):
        run(*common, "--label", "side")
    with refused("labels", "data", "own.csv, record 1, column side"):
        run(*common, "--label", "side", "--classes", 3)
    run(*common, "--label", "side", "--class-names", "right,left", "--max-feature-norm", 0.5)
    with refused("max_feature_norm", "range", value=-1.0):
        run(*common, "--label", "side", "--max-feature-norm", -1)
    split = read_party_file(tmp_path / "own.npz")
    assert split.train_x.shape == (24, 3)
    assert np.linalg.norm(split.train_x, axis=1).max() <= 0.5 * (1 + 1e-12)
    np.testing.assert_array_equal(split.train_x[:, 0] > split.train_x[:, 1], split.train_y == 1)


OWN = ("--data-for-party", "0=x")
BAD = {
    "extractor": (("--features", "pca"), "features", "value", "pca"),
    "kind": (("--features", "hashed"), "features", "value", "hashed"),
    "weights": (("--weights", "x.pt"), "weights", "conflict", "x.pt"),
    "norm": (("--max-feature-norm", 0), "max_feature_norm", "range", 0.0),
    "seed": (("--seed-data", -1), "seed_data", "range", -1),
    "partition": (("--partition", "even"), "partition", "choice", "even"),
    "class names": (("--class-names", "a,a"), "class_names", "value", "a,a"),
    "numbers as class names": (("--class-names", "1,01"), "class_names", "value", "1,01"),
    "no table": (("--data", "csv:nowhere.csv"), "records", "file", "nowhere.csv"),
    "rank": (("--data-for-party", "3=x.npz"), "data_for_party", "value", "3=x.npz"),
    "no rank": (("--data-for-party", "x.npz"), "data_for_party", "value", "x.npz"),
    "label of images": (("--label", "side"), "label", "conflict", "side"),
    "text of images": (("--text", "words"), "text", "conflict", "words"),
    "classes of images": (("--class-names", "a,b"), "class_names", "conflict", ("a", "b")),
    "dealt files": ((*OWN, "--partition", "shards"), "partition", "conflict", "shards"),
    "both": (("--data", "digits", *OWN), "data", "conflict", "digits"),
    "no file": (("--config", "nowhere.toml"), "config", "file", "nowhere.toml"),
}


def run(*arguments: object) -> None:
    """The command in this process, with its errors as they are."""
    call(*arguments)


@pytest.mark.parametrize("case", BAD)
def test_a_bad_argument_is_named(case):
    arguments, *expected = BAD[case]
    with refused(*expected):
        run(*CLEAR, *arguments)


def test_options_come_from_a_file_and_the_command_line_wins(tmp_path):
    file = tmp_path / "run.toml"
    path = tmp_path / "report.json"
    file.write_text(
        'backend = "clear"\nno_dp = true\nsteps = 3\nsample-rate = 0.05\nmodel = "mlp:4"\n'
        f'lr = 0.5\njson = "{path}"\nparties = 2\n'
    )
    run("train", "--config", file, "--steps", 2)
    report = report_of(path)
    given = {"backend": "clear", "steps": 2, "sample_rate": 0.05, "model": "mlp:4", "parties": 2}
    assert {key: report[key] for key in given} == given
    assert report["epsilon"] is None


@pytest.mark.parametrize(
    ("text", "code", "value"),
    [
        ("epsilom = 2", "key", "run.toml, epsilom"),
        ("max_gradnorm = 2", "key", "run.toml, max_gradnorm"),
        ("[train]\nsteps = 2", "key", "run.toml, train"),
        ("steps = [2, 3]", "data", "run.toml, steps"),
        ("steps 2", "file", "run.toml"),
        ('config = "other.toml"', "key", "run.toml, config"),
    ],
)
def test_a_bad_file_of_options_is_refused_with_its_key(text, code, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text(text + "\n")
    with refused("config", code, value):
        run(*CLEAR, "--config", "run.toml")


def test_values_from_a_file_are_checked_like_options(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('steps = "many"\n')
    done = pea(*CLEAR[:-2], "--config", file)
    assert done.returncode == 2
    assert "--steps must be a whole number, not 'many'. It stands in run.toml." in done.stderr
    assert "Traceback" not in done.stderr
    file.write_text('data-for-party = ["0=a.npz", "0=b.npz"]\nepsilom = 2\n')
    done = pea(*CLEAR, "--config", file)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("pea: --config: run.toml, epsilom is no option")
    assert done.stderr.count("\n") == 1
    file.write_text('data-for-party = ["0=a.npz", "0=b.npz"]\n')
    with refused("data_for_party", "value", value="0=b.npz"):
        run(*CLEAR, "--config", file)
