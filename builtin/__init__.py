"""The small models that ship with specchat. `recipe` makes them."""

from pathlib import Path

BUILTIN = "builtin"
"""The name under which users load the built-in target model."""

BUILTIN_DRAFT = "builtin-draft"
"""The name under which users load its draft model."""

BUILTIN_EAGLE = "builtin-eagle"
"""The name under which users load its EAGLE head."""

PROMPTS = Path(__file__).parent / "prompts.jsonl"
"""Tasks that training never saw, 60 of each family, as `bench` reads prompts (`recipe.corpus --tasks` prints them)."""

_FOLDERS = {BUILTIN: "target", BUILTIN_DRAFT: "draft", BUILTIN_EAGLE: "eagle"}


def path(name: str = "target") -> Path:
    """The folder with the weights, tokenizer and configuration of a built-in model.

    Args:
        name: `"target"`, `"draft"` or `"eagle"`; `"builtin"` and so on, as users name them, mean the same.

    Returns:
        A folder that `from_pretrained` loads offline. It lies inside the package, in a checkout and in a wheel alike.

    Raises:
        FileNotFoundError: the weights are not there; the message names the command that makes them.
    """
    folder = Path(__file__).parent / "weights" / _FOLDERS.get(name, name)
    if not (folder / "model.safetensors").is_file():
        raise FileNotFoundError(
            f"The built-in model {name!r} is not in {folder}. Reinstall specchat, or make it with "
            "`python -m specchat.builtin.recipe.train` and `python -m specchat.builtin.recipe.export`."
        )
    return folder
