"""The state of rows: whoever saw which of them, in whatever order it is merged, it is the state of one pass."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vergence.diagnostics import copies, geometry, merging
from vergence.diagnostics.spectrum import singular_values


def rows(n=400, d=6, seed=0):
    made = np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)
    made[7] = made[3]
    made[11] = made[3]
    made[20] = 0
    return torch.from_numpy(made), torch.arange(n) * 7 + 3, [f"c{number % 5}" for number in range(n)]


def same(one, other):
    for name in ("digests", "repeats"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    orders = [np.argsort(each.keys) for each in (one, other)]
    for name in ("hashes", "keys", "reservoir", "labels"):
        first, second = (getattr(each, name)[order] for each, order in zip((one, other), orders, strict=True))
        np.testing.assert_array_equal(first, second, err_msg=name)
    assert (one.n, one.zeros, one.classes, one.copies) == (other.n, other.zeros, other.classes, other.copies)
    torch.testing.assert_close(one.count, other.count, rtol=0, atol=0)
    for name in ("total", "product"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose([one.mean, one.square], [other.mean, other.square], rtol=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.sampled_from([50, 10**5]))
def test_merging_in_any_order_over_any_split_is_the_single_pass(seed, parts, most):
    monkey = pytest.MonkeyPatch()
    monkey.setattr(merging, "RESERVOIR", most)
    monkey.setattr(merging, "reservoir_size", lambda d: most)
    monkey.setattr(merging, "SKETCH", most)
    x, keys, labels = rows()
    whole = merging.of(x, keys, labels)
    generator = np.random.default_rng(seed)
    owner = generator.integers(0, parts, len(x))
    pieces = [np.flatnonzero(owner == part) for part in generator.permutation(parts)]
    states = [merging.of(x[piece], keys[piece], [labels[at] for at in piece]) for piece in pieces if len(piece)]
    if seed % 3 == 0:  # all at once
        states = [merging.merged(*states)]
    while len(states) > 1:  # or a tree of any shape
        first, second = sorted(generator.choice(len(states), 2, replace=False))
        later = states.pop(second)
        states.append(
            merging.merged(states.pop(first), later) if seed % 2 else merging.merged(later, states.pop(first))
        )
    monkey.undo()
    found, order, place = (
        states[0],
        np.lexsort((whole.keys, whole.hashes)),
        np.lexsort((states[0].keys, states[0].hashes)),
    )
    for name in ("hashes", "keys", "reservoir", "labels"):
        np.testing.assert_array_equal(getattr(found, name)[place], getattr(whole, name)[order], err_msg=name)
    np.testing.assert_array_equal(found.digests, whole.digests)
    np.testing.assert_array_equal(found.repeats, whole.repeats)
    assert (found.n, found.zeros, dict(found.classes)) == (whole.n, whole.zeros, dict(whole.classes))
    torch.testing.assert_close(found.product, whole.product, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose([found.mean, found.square], [whole.mean, whole.square], rtol=1e-12)


def test_looking_only_at_what_can_still_enter_changes_nothing(monkeypatch):
    monkeypatch.setattr(merging, "reservoir_size", lambda d: 30)
    monkeypatch.setattr(merging, "SKETCH", 40)
    x, keys, labels = rows()
    state = None
    for start in range(0, 400, 50):
        part = slice(start, start + 50)
        more = merging.of(x[part], keys[part], labels[part], within=state)
        state = more if state is None else merging.merged(state, more)
    whole = merging.merged(merging.of(x[:200], keys[:200], labels[:200]), merging.of(x[200:], keys[200:], labels[200:]))
    same(state, whole)


def test_the_state_knows_what_all_rows_together_say():
    x, keys, labels = rows()
    state = merging.of(x, keys, labels)
    torch.testing.assert_close(state.moments.singular_values(), singular_values(x))
    plain = geometry.norms(x)
    assert state.norms.zeros == plain.zeros == 1
    assert state.norms.mean.value == pytest.approx(plain.mean.value)
    assert state.norms.mean.interval == pytest.approx(plain.mean.interval)
    assert state.norms.spread == pytest.approx(plain.spread)
    assert state.copies == copies.exact_copies(x) == 2
    assert state.classes == {f"c{label}": 80 for label in range(5)}


def test_copies_beyond_the_sketch_are_estimated_and_none_where_there_are_none(monkeypatch):
    monkeypatch.setattr(merging, "SKETCH", 500)
    x = torch.randn(20_000, 4, generator=torch.Generator().manual_seed(0))
    keys = torch.arange(20_000)
    assert merging.of(x, keys).copies == 0
    x[10_000:] = x[:10_000]
    assert merging.of(x, keys).copies == 10_000
    x[15_000:] = torch.randn(5_000, 4)
    assert merging.of(x, keys).copies == pytest.approx(5_000, rel=0.2)


def test_the_reservoir_is_a_fair_draw(monkeypatch):
    monkeypatch.setattr(merging, "reservoir_size", lambda d: 2_000)
    x = torch.arange(20_000.0)[:, None].repeat(1, 2)
    kept, _ = merging.of(x, torch.arange(20_000)).rows()
    deviation = 20_000 / 12**0.5 / 2_000**0.5
    assert abs(float(kept[:, 0].mean()) - 9_999.5) < 4 * deviation


def test_round_numbers_have_fingerprints_of_their_own():
    bits = ((np.arange(4096)[:, None] >> np.arange(12)) & 1).astype(np.float32)
    assert len(np.unique(merging.fingerprints(bits))) == 4096
    assert len(np.unique(merging.fingerprints(bits[:, :11]))) == 2048


def test_rows_of_other_widths_and_labels_in_some_only_are_refused():
    x, keys, labels = rows()
    with pytest.raises(ValueError, match="6 and of 5 dimensions"):
        merging.merged(merging.of(x, keys), merging.of(x[:, :5], keys))
    with pytest.raises(ValueError, match="Some shards have labels"):
        merging.merged(merging.of(x, keys), merging.of(x, keys, labels))
