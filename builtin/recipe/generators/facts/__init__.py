"""The facts that the model knows: decoding methods, the parts of a language model, and specchat itself."""

from .concepts import CONCEPTS
from .fact import Fact
from .methods import METHODS
from .parts import PARTS

__all__ = ["CONCEPTS", "FACTS", "METHODS", "PARTS", "Fact"]

FACTS: list[Fact] = METHODS + CONCEPTS + PARTS
