"""Random walks over a model: every step as likely as its weight, for what goes wrong only after several steps of the right kind.

`hypothesis.stateful` varies which steps there are and prefers short stories; a walk goes round again and again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., object])


def step(when: Callable[[Any], object] | None = None, *, weight: int = 1, **choices: Sequence[object]) -> Callable[[F], F]:
    """Mark a method of a model as a step, with the values that each argument may have; `when` says whether it is possible."""

    def mark(method: F) -> F:
        method.__dict__["step"] = (when, weight, choices)
        return method

    return mark


def walk(model: Any, seed: int, steps: int) -> None:
    """Take `steps` steps and call `model.holds()` after each; an error names the steps before it.

    The walk begins anew, with the model as its class makes it, when no step is possible any more.
    """
    rng = random.Random(seed)
    kind = type(model)
    marked = [(name, *method.step) for name in dir(kind) if hasattr(method := getattr(kind, name), "step")]
    taken: list[str] = []
    for _ in range(steps):
        possible = [each for each in marked if each[1] is None or each[1](model)]
        if not possible:
            model, taken = kind(), []
            continue
        [(name, _, _, choices)] = rng.choices(possible, [weight for _, _, weight, _ in possible])
        arguments = {each: rng.choice(values) for each, values in choices.items()}
        taken.append(f"{name}({', '.join(f'{each}={value!r}' for each, value in arguments.items())})")
        try:
            getattr(model, name)(**arguments)
            model.holds()
        except BaseException as error:
            error.add_note(f"seed {seed}: {', '.join(taken[-30:])}")
            raise
