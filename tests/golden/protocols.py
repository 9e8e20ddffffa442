"""Every recipe of the conformance suite once, in small: shapes, fractional bits and options."""

from dataclasses import replace
from typing import Any, NamedTuple

from extensions.layers.activations import relu, sigmoid, tanh
from extensions.layers.builder import NetworkBuilder
from extensions.layers.chain import Network
from extensions.layers.stages.grid import Grid, Window
from extensions.layers.tally import cells
from extensions.protocols.clipping import ClipPlan
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.inverse_sqrt import InverseSqrtPlan
from extensions.protocols.updates.adam import AdamRule
from tests.helpers.strategies import MODELS, plan_of

N, ROWS, FEATURES, CLASSES = 10, 8, 6, 4
_X, _TARGETS = (ROWS, FEATURES), (ROWS, CLASSES)
_LAYER = ((CLASSES, FEATURES), (CLASSES,))
_STACKED = ((3, CLASSES, FEATURES), (3, CLASSES))
_HIDDEN = ((5, FEATURES), (5,), (3, 5), (3,))


class Setting(NamedTuple):
    """How a recipe is run."""

    recipe: str
    shapes: tuple[tuple[int, ...], ...]
    options: dict[str, Any]
    frac_bits: int = 16


def _plan(model: str = "linear", **options: Any) -> StepPlan:
    return plan_of(MODELS[model], rows=ROWS, noise_multiplier=1.1, **options)


def _steps() -> dict[str, Setting]:
    """Of steps of one layer and of several, from gradients or from rows on."""
    found = {}
    for name in ("linear", "hidden", "no bias"):
        plan = _plan(name)
        sizes = [s for one in plan.layers for s in (one.in_features, one.out_features)]
        shapes = *((ROWS, size) for size in sizes), (ROWS,), (ROWS,)
        options = {"plan": plan, "seed": 1, "supplied": True}
        found[f"dpsgd_step {name}"] = Setting("dpsgd_step", shapes, options)
    for loss in ("sigmoid", "hard-sigmoid", "softmax", "squared", "least-squares"):
        sizes = Network.dense(
            widths=(FEATURES, CLASSES), activations=(), has_bias=(True,), loss=loss
        )
        bounds = sizes.shapes(max_feature_norm=1.0, max_weight_norm=50.0)
        plan = plan_of(bounds, frac_bits=20, rows=ROWS, noise_multiplier=1.1, momentum=0.5)
        options = {"plan": plan, "loss": loss, "seed": 1}
        shapes = (_X, _TARGETS, (ROWS,), *_LAYER, *_LAYER)
        found[f"step_of_a_model {loss}"] = Setting("step_of_a_model", shapes, options, 20)
    return found


def _windows() -> dict[str, Setting]:
    """Of images: windows alone, and a network with every kind of stage."""
    grid = Grid(channels=2, height=6, width=5)
    window = Window(grid=grid, kernel=(2, 2), stride=(2, 1), padding=((1, 0), (0, 1)))
    places = window.places.reshape(window.positions, -1)[: 2 * 2 * 2]
    sketch = (
        NetworkBuilder(grid).convolution(4, 3, padding=1, groups=2).activation(tanh()).average(2)
    )
    sketch.convolution(6, 2, stride=1).activation(relu()).largest((2, 1))
    sketch.linear(4).activation(tanh()).linear(3)
    chain = Network(stages=tuple(sketch.stages), loss="softmax", guarded=True)
    plan = _plan(parties=3)
    bounds = chain.shapes(max_feature_norm=6.0, max_weight_norm=40.0, max_grad_norm=0.5)
    plan = replace(plan, layers=bounds, max_grad_norm=0.5)
    shapes = [(ROWS, grid.size), (ROWS, 3), (ROWS,)]
    for outputs, inputs in chain.parameter_shapes:
        shapes += [(outputs, inputs), (outputs,)]
    step = {"chain": chain, "plan": plan, "seed": 3}
    return {
        "windows": Setting("windows", ((3, grid.size), (4, places.shape[1])), {"places": places}),
        "step_of_a_network": Setting("step_of_a_network", tuple(shapes), step),
    }


def _starts() -> dict[str, Setting]:
    """Of Protocol 4, by strategy."""
    shapes = (_X, _TARGETS, *_STACKED, *_LAYER)
    return {
        f"initialize {name}": Setting("initialize", shapes, {"strategy": name, "records": [5] * 3})
        for name in ("local", "local-average", "local-accuracy")
    }


def _adam() -> dict[str, Setting]:
    plan = AdamRule(_plan(learning_rate=0.01))
    (layer,) = plan.plan.layers
    shapes = ((layer.out_features, layer.in_features), (layer.out_features,))
    options = {"plan": plan, "steps": 1, "bits": [0, layer.bias_bits]}
    return {"adam_step": Setting("adam", shapes * 3, options)}


_FUNCTIONS = {"sigmoid": sigmoid(), "relu": relu(), "tanh": tanh()}
_SELECT = {"thresholds": [-3, 0, 4], "slopes": [[1, 2, 3]], "constants": [[1, 1, 1]], "shift": 12}

SETTINGS: dict[str, Setting] = {
    "bits": Setting("bits", ((N,),), {"positions": range(64)}),
    "suffix_or": Setting("suffix_or", ((N,),), {}),
    "word_operations": Setting("word_operations", ((N,), (N,)), {"mask": 255}),
    "less_than": Setting("less_than", ((N,),), {"thresholds": [-5, 0, 9]}),
    "truncate": Setting("truncate", ((N,),), {"shifts": [1, 16, 62]}),
    "select": Setting("select", ((N,),), _SELECT),
    "truncate_and_multiply": Setting(
        "truncate_and_multiply", ((N,), (N,)), {"shifts": [5, 20], "pairs": [(0, 1)]}
    ),
    "scaled_rows": Setting("scaled_rows", ((N, 3), (N, 2), (N, 1), (N,)), {"shift": 20}),
    "of_products": Setting("of_products", ((N, 3), (N, 3)), {"shift": 8}),
    "products": Setting("products", ((6, 5), (6, 5)), {}),
    "noise": Setting("noise", ((N,),), {"scale": [3.0], "seed": 1}),
    "inverse_sqrt 2": Setting(
        "inverse_sqrt", ((N,),), {"plan": InverseSqrtPlan(frac_bits=16, degree=2)}
    ),
    "inverse_sqrt 4": Setting(
        "inverse_sqrt", ((N,),), {"plan": InverseSqrtPlan(frac_bits=20, degree=4)}, 20
    ),
    "paper_inverse_sqrt": Setting("paper_inverse_sqrt", ((N,),), {"width": 40}),
    "clip_factor 2": Setting("clip_factor", ((N,),), {"plan": ClipPlan(frac_bits=16, degree=2)}),
    "clip_factor 4": Setting("clip_factor", ((N,),), {"plan": ClipPlan(frac_bits=16, degree=4)}),
    "clip_by_norm": Setting(
        "clip_by_norm", ((6, 9),), {"max_norm": 1.0, "plan": ClipPlan(frac_bits=16, degree=2)}
    ),
    **{
        f"activate {name}": Setting("activate", ((N,),), {"function": function})
        for name, function in _FUNCTIONS.items()
    },
    **{
        f"through {name}": Setting("through", ((N,), (N,)), {"function": function})
        for name, function in _FUNCTIONS.items()
    },
    "probabilities": Setting("probabilities", (_TARGETS,), {}),
    "summed": Setting("summed", ((cells(2),),), {"classes": 2, "records": 12}),
    "tallied": Setting("tallied", ((ROWS, 2), (ROWS, 2)), {"loss": "sigmoid"}),
    "tallied classes": Setting("tallied", (_TARGETS, _TARGETS), {"loss": "softmax"}),
    "tallied number": Setting("tallied", ((ROWS, 1), (ROWS, 1)), {"loss": "squared"}),
    "weighted_sums": Setting(
        "weighted_sums",
        ((ROWS, FEATURES), _TARGETS, _TARGETS),
        {"plan": _plan(), "weights": (0.25, 1.0, 0.5, 0.75)},
    ),
    "linear": Setting("linear", (_X, *_LAYER), {}),
    "backpropagate": Setting("backpropagate", (_TARGETS, _LAYER[0]), {}),
    "model_gradients": Setting("model_gradients", (_X, (ROWS, 3), *_HIDDEN), {}),
    "model_gradients softmax": Setting(
        "model_gradients", (_X, (ROWS, 3), *_HIDDEN), {"loss": "softmax"}
    ),
    "first_smallest": Setting("first_smallest", ((6,),), {}),
    "train": Setting(
        "train", ((2, *_X), (2, *_TARGETS), (2, ROWS), *_LAYER), {"plan": _plan(), "seed": 1}
    ),
    **_steps(),
    **_windows(),
    **_starts(),
    **_adam(),
}
