"""Claims: sentences of the sources, each with a check that calls the product's own functions.

Nothing imports from here but the stage ``reproduce``. A module per source; each ``Claim`` in it is a row. Numbers up to
92 are those of the claims; an erratum carries the number of the claim that guards against it, plus 100.
"""

import importlib
import pkgutil

from vergence.claims.claim import SOURCES, Claim, Outcome, Verdict, claim, within
from vergence.claims.laboratory import SCALES, Laboratory
from vergence.tables import Table


def _collected() -> dict[str, Claim]:
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    rows = [row for module in modules for row in vars(module).values() if isinstance(row, Claim)]
    return {str(row.number): row for row in sorted(rows, key=lambda row: row.number)}


CLAIMS = Table("claim", _collected())

__all__ = ["CLAIMS", "SCALES", "SOURCES", "Claim", "Laboratory", "Outcome", "Verdict", "claim", "within"]
