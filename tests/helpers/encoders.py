"""Small encoders with random weights, in folders as transformers writes them."""

from pathlib import Path

import pytest

WORDS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]"),
    *("the", "film", "was", "good", "bad", "a", "long", "and", "boring", ","),
]
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}


def save_bert(folder: Path, tokens: int = 512) -> Path:
    """Writes an encoder of texts of some words, which reads so many tokens of each."""
    transformers, torch = (pytest.importorskip(name) for name in ("transformers", "torch"))
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(WORDS), intermediate_size=32, **SIZES)
    transformers.BertModel(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    words = str(folder / "vocab.txt")
    transformers.BertTokenizer(words, model_max_length=tokens).save_pretrained(folder)
    return folder


def save_vit(folder: Path, side: int = 8, hidden: int = 32) -> Path:
    """Writes an encoder of square images, in patches of a quarter of their sides."""
    transformers, torch = (pytest.importorskip(name) for name in ("transformers", "torch"))
    torch.manual_seed(0)
    sizes = SIZES | {"hidden_size": hidden, "intermediate_size": 2 * hidden}
    sizes |= {"initializer_range": 0.15}  # with a smaller one all images look alike
    config = transformers.ViTConfig(image_size=side, patch_size=side // 4, **sizes)
    transformers.ViTModel(config, add_pooling_layer=False).save_pretrained(folder)
    size = {"height": side, "width": side}
    transformers.ViTImageProcessor(size=size).save_pretrained(folder)
    return folder
