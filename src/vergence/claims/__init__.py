"""CLAIMS: sentences of the sources, each with a check that calls the product's own functions.

Nothing imports from here but the stage ``reproduce``. A folder for each source, whose front door lists its claims.
Numbers up to 92 are those of the claims; an erratum has the number of the claim that guards against it, plus 100.
"""

from vergence.claims import flatnce, haochen, huang, limits, regularizers, tschannen, wang_isola
from vergence.claims.claim import SOURCES, Claim, Outcome, Verdict, claim, within
from vergence.claims.laboratory import SCALES, Laboratory
from vergence.tables import Table

_ROWS: list[Claim] = [
    *wang_isola.CLAIMS,
    *huang.CLAIMS,
    *tschannen.CLAIMS,
    *limits.CLAIMS,
    *haochen.CLAIMS,
    *flatnce.CLAIMS,
    *regularizers.CLAIMS,
]
CLAIMS = Table("claim", {str(row.number): row for row in sorted(_ROWS, key=lambda row: row.number)})

__all__ = ["CLAIMS", "SCALES", "SOURCES", "Claim", "Laboratory", "Outcome", "Verdict", "claim", "within"]
