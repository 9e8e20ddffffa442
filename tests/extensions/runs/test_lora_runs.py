"""Adapters of a frozen encoder: gradients of each record, a clip in integers, and what it says."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from extensions.data.features import find
from extensions.data.features.networks.adapters import Adapted, adapted
from extensions.errors import ArgumentError
from extensions.estimator import PrivateClassifier
from extensions.layers.models.lora import LoraSizes, lora_sizes, rank_of
from extensions.privacy.sampling import Batch
from extensions.protocols.noisy_sums.adapter_step import AdapterStep
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import encode
from extensions.runs.model import read_opened
from extensions.runs.model.export import export
from tests.extensions.runs.test_open_runs import assert_equal_models, trained
from tests.extensions.runs.test_third_host import toy
from tests.helpers.commands import pea
from tests.helpers.encoders import save_bert, save_vit
from tests.helpers.refused import refused
from tests.helpers.torchvision_here import torchvision_here

__all__ = ["toy"]

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
TEXTS = np.array(["the film was good", "bad", "a long and boring film , and bad"], dtype=object)
OUTPUTS = 3


@pytest.fixture(scope="module", autouse=True)
def torchvision():
    with torchvision_here() as found:
        yield found


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return save_bert(tmp_path_factory.mktemp("bert"), tokens=16)


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    return save_vit(tmp_path_factory.mktemp("vit"))


def weights_of(encoder: Adapted, scale: float = 0.3):
    """Weights of a head and of adapters, none of them 0, as a run has them."""
    width = sizes(encoder).width(OUTPUTS)
    draw = np.random.default_rng(0)
    return scale * draw.normal(size=(OUTPUTS, width)), scale * draw.normal(size=OUTPUTS)


def sizes(encoder: Adapted) -> LoraSizes:
    numbers = [m * n for m, n in encoder.shapes]
    half = len(numbers) // 2
    return LoraSizes(encoder.rank, encoder.hidden, sum(numbers[:half]), sum(numbers[half:]))


def merged(folder, head, config, adapters, scaling):
    """The outputs of an encoder of its authors', with what adapters add in its own weights."""
    network = transformers.AutoModel.from_pretrained(folder).eval()
    modules = dict(network.named_modules())
    for name in config["target_modules"]:
        key = f"base_model.model.{name}.lora_{{}}.weight"
        down, up = (torch.tensor(adapters[key.format(part)]) for part in "AB")
        modules[name].weight.data += scaling * up @ down

    def outputs(**given):
        with torch.inference_mode():
            states = network(**given).last_hidden_state
        mask = given.get("attention_mask", torch.ones(states.shape[:2]))[:, :, None]
        z = (states * mask).sum(1) / mask.sum(1)
        z = z - z.mean(1, keepdim=True)
        z = z / z.norm(dim=1, keepdim=True)
        return (z @ torch.tensor(head["weight"]).T + torch.tensor(head["bias"])).numpy()

    return outputs


def test_a_records_gradient_is_what_autograd_finds_of_it_alone(bert):
    encoder = Adapted(f"hf:{bert},inputs", 2)
    weight, bias = weights_of(encoder)
    rows = find(f"hf:{bert},inputs").function(TEXTS).astype(np.int64)
    deltas = np.random.default_rng(1).normal(size=(len(rows), OUTPUTS))
    trace = encoder.trace(weight, bias, rows)
    np.testing.assert_allclose(trace.outputs, encoder.outputs(weight, bias, rows), atol=1e-5)
    found = trace.gradients(deltas)
    for row in range(len(rows)):
        parts = [*encoder.split(weight.reshape(-1), OUTPUTS), bias]
        leaves = [torch.tensor(part, dtype=torch.float32, requires_grad=True) for part in parts]
        logits = encoder._computed(leaves, rows[row : row + 1]).logits
        (logits * torch.tensor(deltas[row], dtype=torch.float32)).sum().backward()
        alone = torch.cat([leaf.grad.reshape(-1) for leaf in leaves]).numpy()
        np.testing.assert_allclose(found[row], alone, atol=1e-5)
        assert all(leaf.grad.abs().max() > 0 for leaf in leaves)


@pytest.mark.parametrize("weighted", [None, [1.0, 0.5, 0.25]])
def test_a_record_moves_the_sum_by_c_at_most_and_padding_not_at_all(bert, weighted):
    encoder = Adapted(f"hf:{bert},inputs", 2)
    weight, bias = (encode(part, 20) for part in weights_of(encoder, 3.0))
    rows = find(f"hf:{bert},inputs").function(TEXTS).astype(np.int64)
    bound, bits = 0.01, 21
    plan = SimpleNamespace(max_grad_norm=bound, factor_bits=bits)
    config = SimpleNamespace(loss="softmax", class_weights=weighted)
    step = AdapterStep(config, None, SimpleNamespace(plan=plan), None, encoder)
    labels = np.eye(OUTPUTS, dtype=np.int64) << 20
    ring = ClearRing(20, rounding="floor")

    def of(padding):
        batch = Batch(rows, labels, None, np.array(padding))
        ((weights, biases),) = step.clipped(ring, [(weight, bias)], batch)
        assert weights.shape == weight.shape
        return np.concatenate([weights.reshape(-1), biases])

    alone = [of([1 - (i == row) for i in range(3)]) for row in range(3)]
    for row, each in enumerate(alone):
        norm = np.linalg.norm(np.ldexp(each.astype(float), -20 - bits))
        share = 1.0 if weighted is None else weighted[row]
        assert 0.98 * share * bound < norm <= share * bound, "these gradients are longer than C"
    np.testing.assert_array_equal(of([0, 0, 0]), sum(alone))
    np.testing.assert_array_equal(of([1, 1, 1]), 0)


def digits():
    from sklearn.datasets import load_digits

    found = load_digits()
    images = np.rint(found.images * 255 / 16).astype(np.uint8)
    return images[:900], found.target[:900], images[900:1300], found.target[900:1300]


SETTINGS = {"insecure_seed": 1, "steps": 25, "sample_rate": 0.3, "lr": 20.0, "loss": "softmax"}
SETTINGS |= {"momentum": 0.5, "frac_bits": 20}
FROZEN = {**SETTINGS, "whiten": False, "bias_scale": 1.0, "one_output": False, "average": 0.0}
FROZEN |= {"max_grad_norm": 1.0}


def test_what_is_exported_predicts_as_what_was_trained_and_better_than_what_was_frozen(
    tmp_path, vit
):
    x, y, tried, truth = digits()
    owners = np.arange(len(x)) % 2
    fitted = {}
    for model, settings in (("lora:4", SETTINGS), ("logistic", FROZEN)):
        made = PrivateClassifier(10, model=model, features=f"hf:{vit}", settings=settings)
        fitted[model] = made.fit(x, y, groups=owners)
    trained, frozen = (each.score(tried, truth) for each in fitted.values())
    assert trained > frozen + 0.05
    logits = fitted["lora:4"].decision_function(tried)
    saved = fitted["lora:4"].save(tmp_path / "model.npz")
    again = PrivateClassifier.load(saved, features=f"hf:{vit}")
    np.testing.assert_allclose(again.decision_function(tried), logits, atol=1e-6)
    folder = export(read_opened(saved), "peft", tmp_path / "adapter")
    from safetensors.numpy import load_file

    head, adapters = (load_file(folder / f"{n}.safetensors") for n in ("head", "adapter_model"))
    config = json.loads((folder / "adapter_config.json").read_text())
    assert config["target_modules"] == [
        f"layers.{i}.attention.{name}_proj" for i in range(2) for name in "qv"
    ]
    pixels = torch.tensor(tried)[:, None].expand(-1, 3, -1, -1) / 255
    outputs = merged(vit, head, config, adapters, config["lora_alpha"] / config["r"])
    of_others = outputs(pixel_values=(pixels - 0.5) / 0.5)
    np.testing.assert_allclose(of_others, logits, atol=1e-5 * np.abs(logits).max())
    assert (of_others.argmax(1) == truth).mean() == trained


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")  # peft asks for it
def test_peft_reads_what_is_exported(tmp_path, bert):
    peft = pytest.importorskip("peft")
    x, y = np.tile(TEXTS, 40), np.tile([0, 1, 0], 40)
    made = PrivateClassifier(10, model="lora:2", features=f"hf:{bert}", settings={"steps": 3})
    made.fit(x, y)
    folder = export(read_opened(made.save(tmp_path / "model.npz")), "peft", tmp_path / "adapter")
    network = peft.PeftModel.from_pretrained(transformers.AutoModel.from_pretrained(bert), folder)
    header = made.model_.header
    ((weight, _),) = made.model_.parameters
    _, *parts = header.encoder.split(weight.reshape(-1), 2)
    found = dict(network.named_parameters())
    for name, part in zip(header.encoder.layers, parts, strict=False):
        held = found[f"base_model.model.{name}.lora_A.default.weight"]
        np.testing.assert_allclose(held.detach().numpy(), part, atol=1e-6)


def test_hosts_and_the_command_find_one_model_and_say_which_encoder(toy, tmp_path, vit):
    options = ("train", "--epsilon", 4, "--delta", 1e-5, "--insecure-fixed-randomness", 7)
    options += ("--features", f"hf:{vit}", "--model", "lora:2", "--open", "each-step")
    options += ("--steps", 2, "--sample-rate", 0.05, "--loss", "softmax")
    reports, models = zip(
        *(trained(tmp_path / name, *options, "--backend", name) for name in ("toy", "clear")),
        strict=True,
    )
    assert_equal_models(*models)
    assert reports[0]["accuracy"] == reports[1]["accuracy"]
    stated = reports[0]["manifest"]["run"]
    assert stated["features: weights"] == find(f"hf:{vit}").identity["weights"]
    assert lora_sizes(stated["model"]).rank == 2
    np.savez(tmp_path / "asked.npz", x=digits()[0][:5])
    asked = ("predict", "--model", tmp_path / "clear" / "model.npz")
    asked += ("--records", tmp_path / "asked.npz", "--out", tmp_path / "said.csv")
    done = pea(*asked, "--features", f"hf:{vit}")
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "said.csv").read_text().splitlines()) == 6
    assert "{" not in (message := pea(*asked).stderr)
    assert "--features" in message


def test_a_run_that_was_stopped_goes_on_to_the_same_model(tmp_path, vit, monkeypatch):
    options = ("train", "--epsilon", 4, "--delta", 1e-5, "--insecure-fixed-randomness", 7)
    options += ("--features", f"hf:{vit}", "--model", "lora:2", "--open", "each-step")
    options += ("--steps", 3, "--sample-rate", 0.05, "--backend", "clear")
    whole, model = trained(tmp_path / "whole", *options)
    kept = ("--checkpoint", tmp_path / "kept", "--checkpoint-every", 1)
    with monkeypatch.context() as patched:
        after, made = AdapterStep.after, []

        def stops(self, *rest):
            made.append(1)
            if len(made) == 3:
                raise ZeroDivisionError
            after(self, *rest)

        patched.setattr(AdapterStep, "after", stops)
        with pytest.raises(ZeroDivisionError):
            pea(*options, *kept)
    again, same = trained(tmp_path / "again", *options, *kept, "--resume")
    assert again["resumed_from"] == [2]
    assert_equal_models(model, same)
    assert whole["epsilon"] == again["epsilon"]


def fit(**changed):
    given = {"model": "lora:2", "epsilon": 4.0} | changed
    x, y, *_ = digits()
    return PrivateClassifier(**given).fit(x[:40], y[:40])


@pytest.mark.parametrize(
    ("argument", "code", "changed"),
    [
        ("features", "value", {}),
        ("features", "value", {"features": "hog"}),
        ("features", "file", {"features": "hf:nowhere/nothing"}),
        ("rank", "range", {"model": "lora:33"}),
        ("model", "value", {"model": "lora:0"}),
        ("open", "choice", {"mode": "hidden"}),
        ("init", "value", {"settings": {"init": "zero"}}),
        ("whiten", "conflict", {"settings": {"whiten": True}}),
    ],
)
def test_what_does_not_fit_is_refused(vit, argument, code, changed):
    changed = {"features": f"hf:{vit}"} | changed if changed else {}
    with refused(argument, code):
        fit(**changed)


def test_an_encoder_without_such_layers_is_refused(tmp_path):
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8], depths=[1], layer_type="basic"
    )
    transformers.ResNetModel(config).save_pretrained(tmp_path)
    size = {"height": 8, "width": 8}
    transformers.ViTImageProcessor(size=size).save_pretrained(tmp_path)
    with refused("features", "value"):
        fit(features=f"hf:{tmp_path}")


def test_records_of_another_reading_and_layers_that_mix_records_are_refused(vit):
    encoder = Adapted(f"hf:{vit},inputs", 1)
    encoder.check(np.full((3, 64), 200))
    for wrong in (np.full((3, 64), 300), np.full((3, 64), 0.5), np.full((3, 64), -1)):
        with refused("records", "data"):
            encoder.check(wrong)
    layer = next(iter(encoder.layers.values()))
    layer.register_forward_hook(lambda module, given, found: found - found.mean(0))
    with refused("features", "value"):
        encoder.check(np.random.default_rng(0).integers(0, 255, (3, 64)))


def test_names_say_sizes():
    assert (rank_of("lora:8"), rank_of("mlp:8"), lora_sizes("lora:8")) == (8, None, None)
    found = lora_sizes("lora:2:16:128:128")
    assert found.text == "lora:2:16:128:128"
    assert found.width(3) == 16 + 86
    start = found.start(3, np.random.default_rng(0)).reshape(-1)
    assert np.count_nonzero(start) == np.count_nonzero(start[48 : 48 + 128]) == 128
    with pytest.raises(ArgumentError):
        rank_of("lora:")
    assert adapted.cache_info().maxsize == 2
