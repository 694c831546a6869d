"""Public names as they were spelled in the first release still work, and are the same functions."""

import pytest

from vergence import evaluation, theory
from vergence.tables import OLD_SPELLINGS
from vergence.theory import graph

OLD = {
    (evaluation, "nearest_centre"): evaluation.nearest_center,
    (theory, "generalisation_bound"): theory.generalization_bound,
    (theory, "class_centres"): theory.class_centers,
    (theory, "nearest_centre_classes"): theory.nearest_center_classes,
    (theory, "nearest_centre_error"): theory.nearest_center_error,
    (theory, "standardised"): theory.standardized,
    (theory, "von_mises_fisher_log_normaliser"): theory.von_mises_fisher_log_normalizer,
    (graph, "matrix_factorisation_loss"): graph.matrix_factorization_loss,
}


@pytest.mark.parametrize(("place", "function"), OLD.items(), ids=[name for _, name in OLD])
def test_an_old_spelling_is_the_function_of_the_new_one(place, function, recwarn):
    module, name = place
    assert name != function.__name__  # a rename over the whole tree must leave the old spellings alone
    assert getattr(module, name) is function
    assert not recwarn.list


def test_rows_and_options_have_old_spellings_that_differ_from_the_new_ones():
    assert OLD_SPELLINGS
    assert not {old for old, new in OLD_SPELLINGS.items() if old == new}
