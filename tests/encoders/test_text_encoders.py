"""Encoders of texts: padding changes nothing, weights start at the rarity of words, order matters where it should."""

import math

import pytest
import torch

from vergence.encoders import build
from vergence.encoders.pretrained import with_special
from vergence.encoders.text_transformer import pooled, rotated

TEXTS = {"bag": {}, "bigru": {"pooling": "last", "hidden": 8}, "transformer": {"width": 16, "depth": 2, "heads": 2}}


def made(name, **options):
    torch.manual_seed(0)
    return build(name, (9,), **{"vocabulary": 50, **TEXTS[name], **options}).eval()


@pytest.mark.parametrize("name", TEXTS)
def test_padding_changes_nothing(name):
    encoder, x = made(name), torch.randint(1, 50, (4, 5))
    padded = torch.cat([x, torch.zeros(4, 4, dtype=torch.int64)], 1)
    torch.testing.assert_close(encoder(padded), encoder(x))


@pytest.mark.parametrize(("name", "matters"), [("bag", False), ("bigru", True), ("transformer", True)])
def test_the_order_of_words_matters_to_all_but_the_bag(name, matters):
    encoder, x = made(name), torch.tensor([[3, 4, 5, 6]])
    assert torch.allclose(encoder(x), encoder(x.flip(1)), atol=1e-5) is not matters


def test_a_transformer_without_positions_is_blind_to_order():
    encoder, x = made("transformer", positions="none"), torch.tensor([[3, 4, 5, 6]])
    torch.testing.assert_close(encoder(x), encoder(x.flip(1)))


def test_products_of_rotated_vectors_depend_on_distance_alone():
    query, key = torch.randn(2, 1, 8, dtype=torch.float64)
    turned = rotated(query.expand(6, 8)) @ rotated(key.expand(6, 8)).T
    torch.testing.assert_close(turned[0, 2], turned[3, 5])
    torch.testing.assert_close(turned[0, 0], (query @ key.T)[0, 0])


def test_a_bag_is_the_mean_of_weighted_vectors():
    encoder = made("bag")
    encoder.tokens.measure(torch.full((50,), 3), 99)
    weight = math.log(100 / 4)
    expected = weight * encoder.tokens.vectors.weight[torch.tensor([7, 7, 9])].mean(0)
    torch.testing.assert_close(encoder(torch.tensor([[7, 7, 9, 0]]))[0], expected)


def test_the_plain_mean_stands_beside_the_weighted_one_and_in_the_table():
    encoder = made("bag", plain=0.5)
    encoder.tokens.measure(torch.full((50,), 3), 99)
    tokens = torch.tensor([[7, 7, 9, 0]])
    vectors = encoder.tokens.vectors.weight[torch.tensor([7, 7, 9])].mean(0)
    expected = torch.cat([math.log(100 / 4) * vectors, 0.5 * vectors])
    torch.testing.assert_close(encoder(tokens)[0], expected)
    torch.testing.assert_close(encoder.table(50)[torch.tensor([7, 7, 9])].mean(0), expected)
    assert encoder.width == len(expected)


def test_squared_weights_by_repeats_are_mutual_information_times_the_root_of_rarity():
    encoder, pairs = made("bag", repeats=True), 3000
    first, second = torch.zeros(pairs, 4, dtype=torch.int64), torch.zeros(pairs, 4, dtype=torch.int64)
    first[:, 0], second[:, 0] = 1, 1
    first[:1000, 1], second[:500, 1] = 7, 7  # of 1,000 texts with token 7, 500 have a positive with it
    first[:100, 2], second[:60, 2] = 9, 9  # of 100 with token 9, 60
    first[:1000, 3], second[::3, 3] = 8, 8  # token 8 comes again by chance
    for part in torch.arange(pairs).split(700):
        encoder.tokens.observe(first[part], second[part])

    def square(held, repeated, after):
        again = (repeated + 20 * 0.03) / (held + 20)
        return math.sqrt(math.log(3001 / (held + 1))) * max(0.01, math.log(again / ((after + 0.5) / pairs)))

    expected = torch.tensor([square(1000, 500, 500), square(100, 60, 60), square(1000, 334, 1000)])
    found = encoder.tokens.weights(torch.tensor([7, 9, 8])) ** 2
    torch.testing.assert_close(found / found[0], expected / expected[0])
    assert found[2] < 0.02 * found[0]
    assert not encoder.tokens.log_weight.requires_grad


def test_weights_by_repeats_keep_the_mean_square_and_count_the_same_in_any_order():
    draw = torch.Generator().manual_seed(0)
    first, second = (torch.randint(0, 50, (400, 6), generator=draw) for _ in range(2))
    second[:, :2] = first[:, :2]
    one, two = made("bag", repeats=True), made("bag", repeats=True)
    one.tokens.observe(first, second)
    for part in torch.randperm(400, generator=draw).split(90):
        two.tokens.observe(first[part], second[part])
    torch.testing.assert_close(one.tokens.log_weight, two.tokens.log_weight)
    held = one.tokens.held[0]
    idf = torch.log(401 / (1.0 + held)).clamp(min=1e-2)
    square = one.tokens.log_weight[:, 0].exp() ** 2
    torch.testing.assert_close((held * square).sum(), (held * idf**2).sum())


def test_vectors_with_something_in_common_start_at_the_cosine_of_it():
    vectors = made("bag", vocabulary=300, width=4096, common=0.5).tokens.vectors.weight[1:].detach()
    unit = torch.nn.functional.normalize(vectors, dim=1)
    mean = ((unit @ unit.T).sum() - len(unit)) / (len(unit) * (len(unit) - 1))
    assert float(mean) == pytest.approx(0.25 / 1.25, abs=0.005)


def test_only_rows_of_the_batch_have_a_gradient():
    encoder = made("bag").train()
    encoder(torch.tensor([[3, 4, 0], [4, 9, 9]])).sum().backward()
    gradient = encoder.tokens.vectors.weight.grad
    assert gradient.is_sparse
    assert gradient.coalesce().indices()[0].tolist() == [3, 4, 9]


def test_pooling_takes_the_state_it_names():
    states, real = torch.arange(12.0).view(2, 3, 2), torch.tensor([[True, True, False], [True, True, True]])
    assert pooled(states, real, "first").tolist() == [[0, 1], [6, 7]]
    assert pooled(states, real, "last").tolist() == [[2, 3], [10, 11]]
    assert pooled(states, real, "mean").tolist() == [[1, 2], [8, 9]]


def test_rows_in_pieces_of_one_length_are_encoded_as_the_whole_batch_is():
    draw = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 13, (50,), generator=draw)
    tokens = torch.randint(1, 50, (50, 12), generator=draw) * (torch.arange(12) < lengths[:, None])
    encoder, widths = made("transformer", dropout=0.0), []
    expected = encoder.eval()(tokens)
    encoder.blocks[0].register_forward_pre_hook(lambda _, given: widths.append(given[0].shape[:2].numel()))
    torch.testing.assert_close(encoder.train()(tokens), expected, rtol=1e-4, atol=1e-6)
    assert sum(widths) < 1.35 * int(lengths.sum()) < 0.85 * tokens.numel()


def test_special_tokens_stand_around_each_text():
    ids, real = with_special(torch.tensor([[6, 7, 0], [6, 7, 8]]), [101], [102])
    assert ids.tolist() == [[101, 5, 6, 102, 0], [101, 5, 6, 7, 102]]
    assert real.sum(1).tolist() == [4, 5]


@pytest.mark.parametrize("options", [{"pooling": "median"}, {"positions": "spiral"}, {"heads": 3}])
def test_a_transformer_that_cannot_be_built_is_refused(options):
    with pytest.raises(ValueError, match=r"median|spiral|multiple of twice"):
        made("transformer", **options)
