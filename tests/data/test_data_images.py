"""A folder of odd images: what comes out of each, and what is left out."""

import numpy as np
import pytest
import torch
from PIL import Image

from vergence.data import batches_of, images, load
from vergence.data.images import pixels

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def photograph(seed=0, size=(40, 30)):
    noise = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)


@pytest.fixture
def photos(tmp_path):
    """Ten photographs of different sizes in two formats."""
    for seed in range(10):
        photograph(seed, (40 + seed, 30 + 2 * seed)).save(tmp_path / f"{seed}.{'jpg' if seed % 2 else 'png'}")
    return tmp_path


def center(image, **options):
    """The color in the middle of an image as it comes out."""
    return tuple(pixels(image, size=8, **options)[:, 4, 4].tolist())


# Modes


@pytest.mark.parametrize(
    ("image", "color"),
    [
        (Image.new("RGB", (9, 9), RED), RED),
        (Image.new("L", (9, 9), 77), (77, 77, 77)),
        (Image.new("1", (9, 9), 1), WHITE),
        (Image.new("LA", (9, 9), (0, 0)), WHITE),
        (Image.new("RGBA", (9, 9), (255, 0, 0, 255)), RED),
        (Image.new("RGBA", (9, 9), (0, 0, 0, 0)), WHITE),
        (Image.new("RGBA", (9, 9), (0, 0, 0, 128)), (127, 127, 127)),
        (Image.new("RGB", (9, 9), BLUE).convert("P"), BLUE),
        (Image.new("CMYK", (9, 9), (0, 255, 255, 0)), RED),
        (Image.new("YCbCr", (9, 9), (128, 128, 128)), (128, 128, 128)),
        (Image.fromarray(np.full((9, 9), 300 * 256, np.int32).clip(0, 200 * 256)), (200, 200, 200)),
        (Image.fromarray(np.full((9, 9), 100 * 256 + 255, np.uint16)), (100, 100, 100)),
    ],
    ids=lambda value: getattr(value, "mode", ""),
)
def test_every_mode_becomes_eight_bit_color(image, color):
    assert center(image) == color


def test_a_transparent_palette_is_laid_on_white(tmp_path):
    image = Image.new("P", (9, 9), 0)
    image.putpalette([255, 0, 0, 0, 255, 0])
    image.save(tmp_path / "palette.png", transparency=0)
    assert center(Image.open(tmp_path / "palette.png")) == WHITE


def test_gray_is_one_channel():
    assert center(Image.new("RGB", (9, 9), WHITE), channels=1) == (255,)


# Geometry


def test_orientation_is_taken_from_the_camera(tmp_path):
    image = Image.new("RGB", (16, 16), RED)
    image.paste(Image.new("RGB", (16, 8), BLUE), (0, 8))
    exif = Image.Exif()
    exif[0x0112] = 3  # the camera was upside down
    image.save(tmp_path / "turned.png", exif=exif)
    upright = pixels(Image.open(tmp_path / "turned.png"), size=16)
    assert tuple(upright[:, 2, 8]) == BLUE
    assert tuple(upright[:, 13, 8]) == RED


def test_orientation_survives_decoding_at_a_smaller_scale(tmp_path):
    image = Image.new("RGB", (640, 480), RED)
    image.paste(Image.new("RGB", (320, 480), BLUE), (320, 0))
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera lay on its side: the left edge of the file is the top of the picture
    image.save(tmp_path / "side.JPG", exif=exif)
    upright = pixels(Image.open(tmp_path / "side.JPG"), size=16).astype(int)
    assert np.abs(upright[:, 2, 8] - RED).max() < 8
    assert np.abs(upright[:, 13, 8] - BLUE).max() < 8


def test_the_central_square_is_kept():
    image = Image.new("RGB", (30, 10), RED)
    image.paste(Image.new("RGB", (10, 10), GREEN), (10, 0))
    assert (pixels(image, size=10) == np.array(GREEN, np.uint8)[:, None, None]).all()


@pytest.mark.parametrize("size", [(1, 1), (10_000, 1), (1, 3000), (2, 2)])
def test_extreme_sizes_are_harmless(size):
    assert (pixels(Image.new("RGB", size, RED), size=32) == np.array(RED, np.uint8)[:, None, None]).all()


@pytest.mark.parametrize("size", [28, 224])
def test_a_jpeg_decoded_small_is_nearly_the_one_decoded_whole(tmp_path, size):
    photograph(0, (1600, 1200)).save(tmp_path / "large.jpg", quality=95)
    with Image.open(tmp_path / "large.jpg") as image:
        whole = pixels(image.convert("RGB"), size=size)
    with Image.open(tmp_path / "large.jpg") as image:
        small = pixels(image, size=size)
        assert max(image.size) <= 800  # decoded at a half or less
    assert np.abs(small.astype(int) - whole).mean() < 2


# Folders


def test_a_folder_without_classes_has_no_labels(photos):
    train, test = load(f"folder:{photos}"), load(f"folder:{photos}", split="test")
    assert (len(train), len(test), train.labels, train.shape) == (8, 2, None, (3, 64, 64))
    assert sorted(train.names + test.names) == sorted(path.name for path in photos.iterdir())


def test_sub_folders_are_classes(tmp_path):
    for index, name in enumerate(["dog", "cat", "cat", "dog", "cat", "dog"]):
        (tmp_path / name / "deeper").mkdir(parents=True, exist_ok=True)
        photograph(index).save(tmp_path / name / "deeper" / f"{index}.webp")
    samples = load(f"folder:{tmp_path},size=28", split="all")
    assert samples.classes == ("cat", "dog")
    assert [samples.classes[label] for label in samples.labels] == [name.split("/")[0] for name in samples.names]
    assert samples.x.shape == (6, 3, 28, 28)


def test_train_and_test_folders_are_the_split(tmp_path):
    for place in ("train/a", "train/b", "val/b", "val/c"):
        (tmp_path / place).mkdir(parents=True)
        for seed in range(3):
            photograph(seed).save(tmp_path / place / f"{seed}.png")
    train, test = load(f"folder:{tmp_path}"), load(f"folder:{tmp_path}", split="test")
    assert train.classes == test.classes == ("a", "b", "c")
    assert (train.labels.tolist(), test.labels.tolist()) == ([0] * 3 + [1] * 3, [1] * 3 + [2] * 3)


def test_images_beside_sub_folders_mean_that_these_are_not_classes(photos):
    for name in ("a", "b"):
        (photos / name).mkdir()
        photograph().save(photos / name / "more.png")
    samples = load(f"folder:{photos}", split="all")
    assert (len(samples), samples.labels) == (12, None)


def test_a_link_that_leads_back_ends(photos):
    (photos / "again").symlink_to(photos, target_is_directory=True)
    assert len(load(f"folder:{photos}", split="all")) == 10


def test_what_cannot_be_read_is_skipped_and_named(photos):
    whole = (photos / "1.jpg").read_bytes()
    (photos / "half.jpg").write_bytes(whole[: len(whole) // 2])
    (photos / "half.png").write_bytes((photos / "0.png").read_bytes()[:-200])
    (photos / "empty.jpg").touch()
    (photos / "letter.jpg").write_text("Dear reader")
    (photos / "._mac.jpg").write_text("not counted: hidden")
    (photos / "notes.txt").write_text("not counted: not called an image")
    Image.new("F", (5, 5), 0.5).save(photos / "float.tiff")
    for memory in (4.0, 0.0):
        samples = load(f"folder:{photos}", split="all", memory=memory)
        reasons = dict(samples.skipped)
        assert len(samples) == len(samples.names) == 10
        assert set(reasons) == {"half.jpg", "half.png", "empty.jpg", "letter.jpg", "float.tiff"}
        assert "truncated" in reasons["half.jpg"].lower()
        assert reasons["empty.jpg"] == "empty file"
        assert reasons["letter.jpg"] == "not an image that Pillow can read"
        assert "floating-point" in reasons["float.tiff"]
        assert str(samples).endswith("5 skipped")


def test_a_folder_larger_than_the_budget_is_decoded_batch_by_batch(photos):
    (photos / "0.png").write_bytes(b"")  # so that positions shift
    held, stored = (load(f"folder:{photos}", split="all", memory=memory) for memory in (4.0, 0.0))
    assert not isinstance(stored.x, torch.Tensor)
    indices = torch.tensor([8, 0, 3])
    torch.testing.assert_close(stored.x[indices], held.x[indices], rtol=0, atol=0)


def test_a_limit_opens_no_more_files_than_it_keeps(photos, monkeypatch):
    opened, plain = [], images._opened
    monkeypatch.setattr(images, "_opened", lambda files, index: (opened.append(index), plain(files, index))[1])
    assert len(load(f"folder:{photos}", limit=4)) == len(opened) == 4


def test_loader_workers_can_decode(photos):
    samples = load(f"folder:{photos}", split="all", memory=0.0)
    batches = [torch.arange(5), torch.arange(5, 10)]
    loader = torch.utils.data.DataLoader(samples.x, batch_size=None, sampler=batches, num_workers=2)
    torch.testing.assert_close(torch.cat(list(loader)), samples.x[torch.arange(10)])


def test_batches_read_ahead_come_in_order(photos):
    held, stored = (load(f"folder:{photos}", split="all", memory=memory) for memory in (4.0, 0.0))
    order = [torch.tensor(batch) for batch in ([3, 1], [9], [0, 0, 2], [5], [7, 8])]
    for (indices, x), (expected, y) in zip(batches_of(stored.x, order), batches_of(held.x, order), strict=True):
        assert torch.equal(indices, expected)
        assert torch.equal(x, y)


def test_an_image_that_disappears_during_training_is_named(photos):
    samples = load(f"folder:{photos}", split="all", memory=0.0)
    (photos / "5.jpg").unlink()
    with pytest.raises(FileNotFoundError, match=r"5\.jpg"):
        list(batches_of(samples.x, torch.arange(10).split(3)))


def test_a_folder_of_nothing_readable_is_an_error(tmp_path):
    for number in range(5):
        (tmp_path / f"{number}.jpg").touch()
    with pytest.raises(ValueError, match=r"None of the 4 files .*jpg: empty file"):
        load(f"folder:{tmp_path}")


def test_an_empty_folder_says_what_was_looked_for(tmp_path):
    with pytest.raises(ValueError, match=r"no images in .*\.jpg .*\.png"):
        load(f"folder:{tmp_path}")


def test_one_image_is_not_enough(tmp_path):
    photograph().save(tmp_path / "alone.png")
    with pytest.raises(ValueError, match="at least 2"):
        load(f"folder:{tmp_path}")


def test_a_missing_folder_and_a_file_are_told_apart(photos):
    (photos / "holiday").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no folder .*holidays\. Did you mean .*holiday\?"):
        load(f"folder:{photos}/holidays")
    with pytest.raises(FileNotFoundError, match="is a file, not a folder"):
        load(f"folder:{photos}/1.jpg")


@pytest.mark.parametrize("option", ["size=0", "channels=4"])
def test_impossible_options_are_refused(photos, option):
    with pytest.raises(ValueError, match="must be"):
        load(f"folder:{photos},{option}")
