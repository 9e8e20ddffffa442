"""The models of the papers, for images of shape (batch, 1, 28, 28) and 10 classes if not said."""

from torch import nn

BUCKETS = 2**14
"""Numbers of words that `embedding` knows."""


def logistic(inputs: int = 784, classes: int = 10) -> nn.Module:
    """Returns logistic regression: one linear layer; 7,850 parameters on MNIST.

    Examples:
        >>> fl.models.logistic(64)
        Sequential(
          (0): Flatten(start_dim=1, end_dim=-1)
          (1): Linear(in_features=64, out_features=10, bias=True)
        )
    """
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, classes))


def mlp(inputs: int = 784, hidden: int = 200, classes: int = 10) -> nn.Module:
    """Returns the "2NN": two hidden layers with ReLU; 199,210 parameters on MNIST.

    Source:
        McMahan et al., AISTATS 2017, section 3; chain-PPFL's MLP.

    Examples:
        >>> sum(p.numel() for p in fl.models.mlp().parameters())
        199210
    """
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(inputs, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, classes),
    )


def cnn() -> nn.Module:
    """Returns two padded 5x5 convolutions (32, 64), each pooled; 1,663,370 parameters.

    Source:
        McMahan et al., AISTATS 2017, section 3; chain-PPFL's CNN.

    Examples:
        >>> fl.models.cnn()(torch.zeros(2, 1, 28, 28)).shape
        torch.Size([2, 10])
    """
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(7 * 7 * 64, 512),
        nn.ReLU(),
        nn.Linear(512, 10),
    )


def cnn_mnist() -> nn.Module:
    """Returns two 5x5 convolutions (10, 20), each pooled, dropout, and 50 units; 21,840 parameters.

    Source:
        the CNNMnist of studies on Paillier and differential privacy, after PyTorch's earlier
        example for MNIST.

    Examples:
        >>> sum(p.numel() for p in fl.models.cnn_mnist().parameters())
        21840
    """
    return nn.Sequential(
        nn.Conv2d(1, 10, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(10, 20, 5),
        nn.Dropout2d(0.5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(320, 50),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(50, 10),
    )


def embedding(buckets: int = BUCKETS, width: int = 32, classes: int = 2) -> nn.Module:
    """Returns the mean of the embeddings of a text's words (`fl.tokens`), and a linear layer.

    Source:
        Joulin et al., EACL 2017 (fastText), without its pairs of words.

    Examples:
        >>> texts = torch.from_numpy(fl.tokens(["a good film", "a bad film"]))
        >>> fl.models.embedding()(texts).shape
        torch.Size([2, 2])
    """
    return nn.Sequential(nn.EmbeddingBag(buckets, width, padding_idx=0), nn.Linear(width, classes))


def lenet(channels: int = 3, classes: int = 100) -> nn.Module:
    """Returns three 5x5 convolutions with sigmoids for images (batch, channels, 32, 32).

    Its gradients are smooth, as deep leakage wants them; its weights are uniform in [-0.5, 0.5].

    Source:
        Zhu et al., NeurIPS 2019.

    Examples:
        >>> fl.models.lenet(classes=10)(torch.zeros(1, 3, 32, 32)).shape
        torch.Size([1, 10])
    """
    model = nn.Sequential(
        nn.Conv2d(channels, 12, 5, padding=2, stride=2),
        nn.Sigmoid(),
        nn.Conv2d(12, 12, 5, padding=2, stride=2),
        nn.Sigmoid(),
        nn.Conv2d(12, 12, 5, padding=2),
        nn.Sigmoid(),
        nn.Flatten(),
        nn.Linear(768, classes),
    )
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -0.5, 0.5)
    return model
