"""Published datasets: the layouts of a local copy, and downloads from a small server that breaks off."""

import gzip
import hashlib
import io
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import torch
from PIL import Image

from vergence.data import load, published
from vergence.data.download import Published, fetched

RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def copies(tmp_path, monkeypatch):
    """An empty cache, and a folder of local copies."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("VERGENCE_DATA", str(tmp_path / "copies"))
    (tmp_path / "copies").mkdir()
    return tmp_path / "copies"


def numbers(*shape, high=256):
    return RANDOM.integers(0, high, shape, dtype=np.uint8)


# Layouts


def idx(array):
    shape = np.array(array.shape, ">i4").tobytes()
    return bytes([0, 0, 8, array.ndim]) + shape + array.tobytes()


@pytest.mark.parametrize(("folder", "ending"), [("mnist", ".gz"), ("mnist", ""), ("MNIST/raw", ".gz")])
def test_mnist_is_read_from_idx_files_compressed_or_not(copies, folder, ending):
    images, labels = numbers(6, 28, 28), numbers(6, high=10)
    (copies / folder).mkdir(parents=True)
    for stem, array in {"images-idx3-ubyte": images, "labels-idx1-ubyte": labels}.items():
        content = gzip.compress(idx(array)) if ending else idx(array)
        (copies / folder / f"train-{stem}{ending}").write_bytes(content)
    samples = load("mnist")
    assert samples.x.squeeze(1).numpy().tolist() == images.tolist()
    assert samples.labels.tolist() == labels.tolist()


def test_a_damaged_idx_file_is_named(copies):
    (copies / "fashion-mnist").mkdir()
    (copies / "fashion-mnist" / "train-images-idx3-ubyte").write_bytes(idx(numbers(6, 28, 28))[:-1])
    with pytest.raises(ValueError, match="train-images-idx3-ubyte is not a whole IDX file"):
        load("fashion_mnist")


def test_damaged_archives_and_records_are_named(copies):
    (copies / "cifar-100-binary.tar.gz").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"cifar-100-binary\.tar\.gz is damaged"):
        load("cifar100")
    (copies / "cifar-100-binary").mkdir()
    (copies / "cifar-100-binary" / "train.bin").write_bytes(bytes(100))
    with pytest.raises(ValueError, match=r"train\.bin is not a whole number of records"):
        load("cifar100")
    (copies / "mnist").mkdir()
    (copies / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(bytes(100))[:-9])
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte\.gz is damaged"):
        load("mnist")


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_a_npz_of_the_name_is_a_local_copy(copies, name):
    shape = (28, 28) if name == "mnist" else (32, 32, 3)
    tables = {"x_train": numbers(8, *shape), "y_train": numbers(8, 1, high=10)}
    tables |= {"x_test": numbers(4, *shape), "y_test": numbers(4, 1, high=10)}
    np.savez(copies / f"{name}.npz", **tables)
    both = load(name, split="all")
    assert len(both) == 12
    assert both.labels.tolist() == [*tables["y_train"].flatten(), *tables["y_test"].flatten()]
    assert both.x[3, 0, 5, 7] == tables["x_train"][3, 5, 7].flat[0]


def archive(path, files):
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize("packed", [True, False])
def test_cifar10_is_read_from_its_binary_records(copies, packed):
    images, labels = numbers(10, 3, 32, 32), numbers(10, high=10)
    records = np.hstack([labels[:, None], images.reshape(10, -1)])
    files = {f"cifar-10-batches-bin/data_batch_{i + 1}.bin": records[2 * i : 2 * i + 2].tobytes() for i in range(5)}
    if packed:
        archive(copies / "cifar-10-binary.tar.gz", files)
    else:
        (copies / "cifar-10-batches-bin").mkdir()
        for name, content in files.items():
            (copies / name).write_bytes(content)
    samples = load("cifar10")
    assert samples.labels.tolist() == labels.tolist()
    assert torch.equal(samples.x, torch.from_numpy(images))


def test_cifar100_has_the_fine_labels(copies):
    images, coarse, fine = numbers(4, 3, 32, 32), numbers(4, high=20), numbers(4, high=100)
    records = np.hstack([coarse[:, None], fine[:, None], images.reshape(4, -1)])
    archive(copies / "cifar-100-binary.tar.gz", {"cifar-100-binary/test.bin": records.tobytes()})
    samples = load("cifar100", split="test")
    assert samples.labels.tolist() == fine.tolist()
    assert torch.equal(samples.x, torch.from_numpy(images))


def test_cifar10_is_read_from_sheets(copies):
    images = np.zeros((10_000, 32, 32, 3), np.uint8)
    images[:, 5, 6, 2], images[:, 0, 0, 0] = 7, np.arange(10_000) % 251
    sheet = images.reshape(100, 100, 32, 32, 3).transpose(0, 2, 1, 3, 4).reshape(3200, 3200, 3)
    (copies / "cifar10").mkdir()
    Image.fromarray(sheet).save(copies / "cifar10" / "test_batch.webp", lossless=True, quality=0, method=0)
    labels = numbers(10_000, high=10)
    np.savez(copies / "cifar10" / "labels.npz", y_test=labels)
    samples = load("cifar10", split="test")
    assert samples.labels.tolist() == labels.tolist()
    assert torch.equal(samples.x, torch.from_numpy(images).permute(0, 3, 1, 2))


def test_stl10_is_stored_column_by_column_and_counts_from_one(copies):
    images, labels = numbers(3, 96, 96, 3), np.array([1, 10, 4], np.uint8)
    files = {"train_X.bin": images.transpose(0, 3, 2, 1).tobytes(), "train_y.bin": labels.tobytes()}
    (copies / "stl10_binary").mkdir()
    for name, content in {**files, "unlabeled_X.bin": files["train_X.bin"]}.items():
        (copies / "stl10_binary" / name).write_bytes(content)
    samples = load("stl10")
    assert [samples.classes[label] for label in samples.labels] == ["airplane", "truck", "cat"]
    assert torch.equal(samples.x, torch.from_numpy(images).permute(0, 3, 1, 2))
    assert load("stl10,unlabeled=true").labels is None


# Downloads

CONTENT = RANDOM.bytes(200_000)


@pytest.fixture
def server():
    """Serves CONTENT, a part of it when asked for a range; ``server.breaks`` answers break off half-way."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            start = int(self.headers.get("Range", "bytes=0-")[6:-1])
            served.requests.append(start)
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(CONTENT) - start))
            self.end_headers()
            served.breaks -= 1
            end = start + (len(CONTENT) - start) // 2 if served.breaks >= 0 else len(CONTENT)
            self.wfile.write(CONTENT[start:end])

        def log_message(self, *_):
            pass

    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.breaks, served.requests = 0, []
    threading.Thread(target=served.serve_forever, daemon=True).start()
    served.address = f"http://127.0.0.1:{served.server_address[1]}/file.bin"
    yield served
    served.shutdown()
    served.server_close()


def test_an_interrupted_download_continues_where_it_stopped(server):
    file = Published(server.address, hashlib.md5(CONTENT).hexdigest())
    server.breaks = 2
    for _ in range(2):
        with pytest.raises(ConnectionError, match="Run the same command again to continue"):
            fetched(file, "set")
    path = fetched(file, "set")
    assert server.requests == [0, 100_000, 150_000]
    assert path.read_bytes() == CONTENT
    assert fetched(file, "set") == path
    assert len(server.requests) == 3
    assert [each.name for each in path.parent.iterdir()] == ["file.bin"]


def test_a_wrong_checksum_leaves_nothing_behind(server, tmp_path):
    with pytest.raises(ValueError, match="not the published 0123"):
        fetched(Published(server.address, "0123"), "set")
    assert list((tmp_path / "cache" / "vergence" / "set").iterdir()) == []


def test_without_a_network_the_message_says_where_to_put_the_file(monkeypatch):
    monkeypatch.setattr(published, "CIFAR10", Published("http://127.0.0.1:9/cifar-10-binary.tar.gz", ""))
    with pytest.raises(ConnectionError, match=r"(?s)put the file at .*VERGENCE_DATA .*cifar10/cifar-10-binary.tar.gz"):
        load("cifar10")


def test_every_published_file_has_a_checksum_of_its_own():
    files = [*published.MNIST, *published.FASHION_MNIST, published.CIFAR10, published.CIFAR100, published.STL10]
    assert len({bytes.fromhex(file.md5) for file in files}) == len({file.address for file in files}) == 11
