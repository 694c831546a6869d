"""Encoders of texts: padding changes nothing, weights start at the rarity of words, order matters where it should."""

import math

import pytest
import torch

from vergence.encoders import build, text_bag
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


def test_a_token_that_counts_once_adds_nothing_when_it_is_said_again():
    encoder = made("bag", once=True)
    encoder.tokens.measure(torch.arange(50), 99)
    once, again = torch.tensor([[9, 7, 0, 0], [5, 0, 0, 0]]), torch.tensor([[7, 9, 7, 7], [5, 5, 0, 0]])
    torch.testing.assert_close(encoder(again), encoder(once))
    several = made("bag")
    several.tokens.measure(torch.arange(50), 99)
    torch.testing.assert_close(encoder(once), several(once))
    assert not torch.allclose(several(again), several(once))


def test_only_rows_of_the_batch_have_a_gradient():
    encoder = made("bag").train()
    encoder(torch.tensor([[3, 4, 0], [4, 9, 9]])).sum().backward()
    gradient = encoder.tokens.vectors.weight.grad
    assert gradient.is_sparse
    assert gradient.coalesce().indices()[0].tolist() == [3, 4, 9]


@pytest.mark.parametrize("vocabulary", [2**15, 2**15 + 1])
def test_tokens_are_put_in_rising_order_equal_ones_as_they_stood(vocabulary):
    tokens = torch.randint(vocabulary, (4096,), generator=torch.Generator().manual_seed(0))
    tokens[-2:] = tokens[7] = vocabulary - 1
    assert torch.equal(text_bag._order(tokens, vocabulary), tokens.argsort(stable=True))


def test_gradients_of_a_bag_are_those_of_the_mean_written_out():
    encoder, x = made("bag", width=4, plain=2.0, std=0.5).double().train(), torch.randint(1, 50, (6, 9))
    outer = torch.randn(6, 8, dtype=torch.float64)
    vectors, log_weight = encoder.tokens.vectors.weight, encoder.tokens.log_weight
    given = [each.detach().clone().requires_grad_() for each in (vectors, log_weight)]
    read = given[0][x]
    expected = torch.cat([(read * given[1][x].exp()).mean(1), 2 * read.mean(1)], 1)
    torch.testing.assert_close(encoder(x), expected)
    (expected * outer).sum().backward()
    (encoder(x) * outer).sum().backward()
    torch.testing.assert_close(vectors.grad.to_dense(), given[0].grad)
    torch.testing.assert_close(log_weight.grad, given[1].grad)


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


def test_the_most_common_tokens_have_columns_of_their_own():
    encoder = made("bag", width=4, std=0.5, plain=2.0, common=2)
    counts = torch.zeros(50, dtype=torch.int64)
    counts[[0, 9, 7]] = torch.tensor([60, 30, 20])
    for part in (encoder.tokens, encoder.own):
        part.measure(counts, 60)
    tokens = torch.tensor([[7, 7, 9, 3, 0], [5, 0, 0, 0, 0]])
    scale = 2.0 * 0.5 * 4**0.5  # plain x the length of a vector before training
    torch.testing.assert_close(encoder(tokens)[:, 4:], scale * torch.tensor([[1 / 4, 2 / 4], [0.0, 0.0]]))
    torch.testing.assert_close(encoder.table(50)[torch.tensor([7, 7, 9, 3])].mean(0), encoder(tokens)[0])
    assert encoder.width == 6


def test_all_other_tokens_share_a_third_of_the_columns():
    encoder = made("bag", plain=1.0, common=6)  # before texts were seen, the lowest numbers are the most common
    assert encoder.own.column.tolist()[:9] == [6, 0, 1, 2, 3, 4, 5, 4, 5]


def test_columns_of_common_tokens_are_kept_with_the_weights():
    encoder, again = made("bag", plain=1.0, common=3), made("bag", plain=1.0, common=3)
    encoder.own.measure(torch.arange(50), 99)
    again.load_state_dict(encoder.state_dict())
    x = torch.randint(1, 50, (4, 5))
    torch.testing.assert_close(again(x), encoder(x))


def test_a_small_vocabulary_has_fewer_columns():
    encoder = made("bag", plain=1.0, common=80, opening=90)
    assert encoder(torch.randint(1, 50, (4, 5))).shape == (4, encoder.width) == (4, 256 + 49 + 49)


@pytest.mark.parametrize("options", [{"common": 5}, {"opening": 5}, {"common": -1, "plain": 1.0}])
def test_columns_that_would_be_empty_are_refused(options):
    with pytest.raises(ValueError, match=r"multiplied by plain|counted from 0"):
        made("bag", **options)


def test_columns_of_the_opening_count_the_first_two_tokens_alone():
    encoder = made("bag", width=4, std=0.5, plain=1.0, common=3, opening=2, once=True)
    tokens = torch.tensor([[9, 2, 1, 1, 2], [2, 2, 5, 0, 0], [1, 0, 0, 0, 0]])
    found = encoder(tokens)[:, -2:]  # before texts were seen, tokens 1 and 2 have the columns; distinct: 3, 2 and 1
    torch.testing.assert_close(found, torch.tensor([[0.0, 1 / 3], [0.0, 2 / 2], [1.0, 0.0]]))
    assert not encoder.is_mean
