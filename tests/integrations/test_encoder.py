"""A trained run ready for use: samples as people have them, prepared as the run's own data were."""

import numpy as np
import pytest
from PIL import Image

import vergence as vg


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for number in range(40):
        pixels = np.random.default_rng(number).integers(0, 256, (20, 30, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    run = tmp_path_factory.mktemp("runs") / "photos"
    vg.train(data=f"folder:{folder},size=12", epochs=1, batch=8, run=run, quiet=True)
    return folder, run


def test_paths_pil_images_and_arrays_are_the_same_image(photos):
    folder, run = photos
    encoder = vg.load(run)
    path = folder / "3.png"
    array = np.asarray(Image.open(path))
    expected = encoder.encode([path, str(path)])
    assert expected.shape == (2, encoder.width)
    np.testing.assert_allclose(expected[0], expected[1])
    for sample in (Image.open(path), [Image.open(path)], array, [array], array[None], array.transpose(2, 0, 1)):
        np.testing.assert_allclose(encoder.encode(sample)[0], expected[0], rtol=1e-5, atol=1e-6)


def test_the_data_need_not_be_there_any_more_and_the_features_are_those_of_the_run(photos, tmp_path):
    folder, run = photos
    made = np.load(vg.embed(run, data=f"folder:{folder},size=12", output=tmp_path / "h.npy").to_dict()["path"])
    names = sorted(folder.glob("*.png"), key=lambda path: str(path.name))
    np.testing.assert_allclose(vg.load(run).encode(names), made, rtol=1e-4, atol=1e-5)


def test_vectors_and_texts(tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    vg.train(data=x, epochs=1, batch=16, run=tmp_path / "vectors", quiet=True)
    encoder = vg.load(tmp_path / "vectors")
    np.testing.assert_allclose(encoder.encode(x[0])[0], encoder.encode(x)[0], rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=r"takes samples of shape \[5\], got \[4\]"):
        encoder.encode(x[:, :4])
    (tmp_path / "lines.txt").write_text("\n".join(f"word{n} and word{n % 7}" for n in range(60)))
    vg.train(data=f"text:{tmp_path}/lines.txt", epochs=1, batch=16, run=tmp_path / "texts", quiet=True)
    encoder = vg.load(tmp_path / "texts")
    assert encoder.encode(["word1 and word2", "word3"]).shape == (2, encoder.width)
    with pytest.raises(ValueError, match="takes texts, got int"):
        encoder.encode([1])


def test_gray_images_may_come_as_a_batch_without_channels(tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    vg.train(data=x, epochs=1, batch=8, run=tmp_path / "run", quiet=True)
    encoder = vg.load(tmp_path / "run")
    np.testing.assert_allclose(encoder.encode(x[:3])[1], encoder.encode(x[1])[0], rtol=1e-5, atol=1e-6)
    with pytest.raises(FileNotFoundError, match="no file"):
        encoder.encode("nowhere.png")
