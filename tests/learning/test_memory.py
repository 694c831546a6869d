"""The queue and the moving average, against hand computations."""

import pytest
import torch
from torch import nn

from vergence.learning.memory import MovingAverage, Queue


def rows(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float32)[:, None]


def test_a_queue_holds_the_last_keys_and_overwrites_the_oldest():
    queue = Queue(4, 1)
    queue.push(rows(1, 2, 3))
    assert queue.negatives().flatten().tolist() == [1, 2, 3]
    queue.push(rows(4, 5))
    assert sorted(queue.negatives().flatten().tolist()) == [2, 3, 4, 5]


def test_an_empty_queue_has_no_negatives():
    assert Queue(4, 2).negatives().shape == (0, 2)


def test_a_push_does_not_change_negatives_taken_before():
    queue = Queue(2, 1)
    queue.push(rows(1, 2))
    before = queue.negatives()
    queue.push(rows(8, 9))
    assert before.flatten().tolist() == [1, 2]


def test_a_batch_larger_than_the_queue_is_refused():
    with pytest.raises(ValueError, match="queue of 2 cannot take a batch of 3"):
        Queue(2, 1).push(rows(1, 2, 3))


def test_a_queue_round_trips_through_its_state():
    queue, copy = Queue(3, 1), Queue(3, 1)
    queue.push(rows(1, 2))
    copy.load_state_dict(queue.state_dict())
    queue.push(rows(3, 4))
    copy.push(rows(3, 4))
    torch.testing.assert_close(queue.negatives(), copy.negatives())


def test_the_moving_average_is_the_weighted_mean_of_past_weights():
    online = nn.Linear(1, 1, bias=False)
    nn.init.constant_(online.weight, 1.0)
    target = MovingAverage(online)
    for value in (2.0, 3.0):
        nn.init.constant_(online.weight, value)
        target.follow(online, 0.9)
    # 0.9 (0.9 x 1 + 0.1 x 2) + 0.1 x 3
    torch.testing.assert_close(target.module.weight.item(), 1.29)


def test_the_moving_average_learns_nothing_by_itself():
    assert not any(parameter.requires_grad for parameter in MovingAverage(nn.Linear(2, 2)).parameters())
