"""Public names as they were spelled in the first release still work, and are the same functions."""

import pytest

from vergence import evaluation, theory
from vergence.theory import graph

OLD = {
    (evaluation, "nearest_center"): evaluation.nearest_center,
    (theory, "generalization_bound"): theory.generalization_bound,
    (theory, "class_centers"): theory.class_centers,
    (theory, "nearest_center_classes"): theory.nearest_center_classes,
    (theory, "nearest_center_error"): theory.nearest_center_error,
    (theory, "standardized"): theory.standardized,
    (theory, "von_mises_fisher_log_normalizer"): theory.von_mises_fisher_log_normalizer,
    (graph, "matrix_factorization_loss"): graph.matrix_factorization_loss,
}


@pytest.mark.parametrize(("place", "function"), OLD.items(), ids=lambda value: str(value)[-40:])
def test_an_old_spelling_is_the_function_of_the_new_one(place, function, recwarn):
    module, name = place
    assert getattr(module, name) is function
    assert not recwarn.list
