"""Files of arrays: .npy, .npz, .parquet, and labels; nothing in them is ever executed."""

import difflib
import gzip
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

ROWS = 8192  # read at a time where a whole file is looked through
LARGEST_NUMBER = 1e75  # float64 ends at 1.8e308, four times this exponent and a little

SPELLINGS = {"X": "x", "data": "x", "images": "x", "Y": "y", "labels": "y", "label": "y", "target": "y", "targets": "y"}


def existing_file(path: str) -> Path:
    """The file at ``path``; if there is none, an error that names the nearest one."""
    file = Path(path).expanduser()
    if file.is_file():
        return file
    if file.is_dir() or file.exists():
        raise FileNotFoundError(f"{path} is a {'folder' if file.is_dir() else 'pipe or a device'}, not a file.")
    if file.is_symlink():
        raise FileNotFoundError(f"{path} is a link that leads to no file.")
    raise FileNotFoundError(f"There is no file {path}.{_nearest(file)}")


def existing_folder(path: str) -> Path:
    """The folder at ``path``; if there is none, an error that names the nearest one."""
    folder = Path(path).expanduser()
    if folder.is_dir():
        return folder
    what = f"{path} is a file, not a folder." if folder.exists() else f"There is no folder {path}."
    raise FileNotFoundError(what + _nearest(folder))


def tables(path: str, *, column: str | None = None) -> dict[str, NDArray[Any]]:
    """The named arrays of a file, under the names x, y, x_train, y_train, x_test and y_test.

    ``column`` is the one of a Parquet table that is x; otherwise it is the first of lists, or all of numbers.
    """
    file = existing_file(path)
    if file.suffix == ".npy":
        return {"x": array_in(file)}
    if file.suffix == ".npz":
        return _renamed(array_in(file), path)
    if file.suffix == ".parquet":
        return _parquet(file, column)
    raise ValueError(f"{path} ends in {file.suffix or 'nothing'}; arrays are read from .npy, .npz, .parquet and .csv.")


def array_in(file: Path) -> Any:
    """The array of a .npy file, left on disk until it is read, or the dict of arrays of a .npz file."""
    try:
        if file.suffix == ".npy":
            found = np.load(file, allow_pickle=False, mmap_mode="r")
            if not isinstance(found, np.ndarray):
                raise ValueError("it is an archive of arrays, as .npz is")
            return found
        with np.load(file, allow_pickle=False) as archive:
            return dict(archive)
    except MemoryError as error:
        raise MemoryError(f"{file} says that it holds more than fits in memory: {error}") from error
    except Exception as error:  # a damaged header is parsed as Python and may raise anything
        if "pickled (object) data" in str(error):  # what numpy takes anything for that it does not know
            raise ValueError(f"{file} is no {file.suffix} file: it begins like something else.") from None
        if not re.search("Object arrays|Python objects", str(error)):  # numpy says either
            raise ValueError(f"{file} cannot be read as {file.suffix}: {_first_line(error)}") from error
        raise ValueError(
            f"{file} holds Python objects, which are not loaded because a pickle can run any code. If you trust it, "
            "convert it once: np.save('new.npy', np.stack(np.load('old.npy', allow_pickle=True)).astype(np.float32))."
        ) from None


def uncompressed(file: Path) -> bytes:
    """The bytes of a file, unpacked if its name ends in .gz."""
    try:
        return gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    except (EOFError, zlib.error, gzip.BadGzipFile, OverflowError) as error:
        raise ValueError(f"{file} is damaged: {error}") from error


def label_file(path: str) -> NDArray[Any]:
    """One label a sample: a .npy array, or a text file with a label a line."""
    file = existing_file(path)
    if file.suffix == ".npy":
        return label_values(array_in(file), str(path))
    if file.suffix in (".npz", ".safetensors", ".parquet", ".pt", ".pth", ".pkl"):
        raise ValueError(f"{path} ends in {file.suffix}; labels are read from a .npy array or a text, one a line.")
    try:
        return np.array(file.read_text(encoding="utf-8").splitlines())
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#x}.") from error


def label_values(labels: NDArray[Any], where: str = "The labels") -> NDArray[Any]:
    """Labels as names or whole numbers: bytes are read as UTF-8, and whole numbers saved as floats are turned back."""
    if labels.dtype.kind == "S":
        return np.char.decode(labels, "utf-8", "backslashreplace")  # labels that differ stay different
    if labels.dtype.kind == "U":
        try:
            return np.array(labels.tolist()).reshape(labels.shape)
        except (SystemError, ValueError) as error:  # numpy trusts that stored text is text
            raise ValueError(f"{where}: the labels are damaged text ({error}).") from error
    if labels.dtype.kind in "iub":
        return np.asarray(labels)
    if labels.dtype.kind != "f":
        raise ValueError(f"{where}: labels have type {labels.dtype}; expected names or whole numbers.")
    if not (np.isfinite(labels) & (labels == np.round(labels)) & (np.abs(labels) < 2.0**53)).all():
        raise ValueError(f"{where}: labels are fractions or NaN; expected names or whole numbers.")
    return np.asarray(labels).astype(np.int64)


def usable_numbers(array: Any, where: str) -> Any:
    """An array of real numbers that floating point can tell apart, or an error; numpy arrays and tensors go in."""
    if hasattr(array, "is_complex"):  # a tensor
        if array.is_complex() or array.layout is not torch.strided or array.is_quantized:
            raise ValueError(f"{where} holds {array.dtype} ({array.layout}); expected a plain array of real numbers.")
        if array.dtype.is_floating_point:
            return _moderate(array.numpy(), where, array) if array.dtype == torch.float64 else array
        return _exact(array.numpy(), where, array)
    if array.dtype.kind == "c":
        raise ValueError(
            f"{where} holds complex numbers, of which real ones cannot keep both parts. Save the part that you mean, "
            "x.real or abs(x), or both side by side: np.concatenate([x.real, x.imag], axis=1)."
        )
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{where} holds {array.dtype}; expected real numbers.")
    if array.dtype.kind in "iu":
        return _exact(array, where, array)
    return _moderate(array, where, array) if array.dtype.itemsize > 4 else array


def _exact(whole: NDArray[Any], where: str, array: Any) -> Any:
    """Whole numbers as they are, as float64 where float32 would merge some, or refused where float64 would."""
    largest = max(abs(int(whole.min())), abs(int(whole.max()))) if whole.size else 0
    if largest > 2**53:
        raise ValueError(
            f"{where} holds whole numbers up to {largest}: beyond 2^53 floating point merges neighbors, so that "
            "different rows become equal. Subtract what they have in common first."
        )
    return whole.astype(np.float64) if largest > 2**24 and whole.dtype != np.int64 else array


def _moderate(numbers: NDArray[Any], where: str, array: Any) -> Any:
    """Numbers whose fourth powers float64 can hold, which variances of variances need; NaN and infinity pass."""
    for start in range(0, len(numbers) if numbers.ndim else 0, ROWS):
        block = np.abs(numbers[start : start + ROWS])
        largest = np.max(block, where=np.isfinite(block), initial=0.0)
        if largest > LARGEST_NUMBER:
            raise ValueError(
                f"{where} holds numbers up to {largest:.3g}; beyond 1e75 their squares overflow. Rescale them."
            )
    return array


def _first_line(error: BaseException) -> str:
    """The first line of another library's error, and never a page of it."""
    if re.match("Cannot parse header|malformed node", str(error)):  # numpy repeats the header, however long
        return "its header is damaged"
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:300]


def _nearest(missing: Path) -> str:
    beside = [child.name for child in missing.parent.iterdir()] if missing.parent.is_dir() else []
    near = [name for name in difflib.get_close_matches(missing.name, beside) if name != missing.name]
    return f" Did you mean {missing.parent / near[0]}?" if near else ""


def _renamed(found: dict[str, Any], path: str) -> dict[str, NDArray[Any]]:
    endings = ("", "_train", "_test")
    spellings = {f"{old}{ending}": f"{new}{ending}" for old, new in SPELLINGS.items() for ending in endings}
    known = {spellings.get(key, key): value for key, value in found.items()}
    if len(known) == 1:
        return {"x": next(iter(known.values()))}
    if "x" in known or {"x_train", "x_test"} <= set(known):
        return known
    raise ValueError(
        f"{path} holds {', '.join(found)}; expected x (and y), or x_train and x_test (and y_train, y_test)."
    )


def _parquet(file: Path, column: str | None = None) -> dict[str, NDArray[Any]]:
    """A table of numbers, or one column of equally long lists; a column with a name for labels is the labels."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Reading .parquet needs pyarrow: pip install 'vergence[parquet]'.") from None
    try:
        table = parquet.ParquetFile(file).read()
    except Exception as error:  # a damaged file may raise anything
        raise ValueError(f"{file} cannot be read as a parquet table: {_first_line(error)}") from error
    columns = {SPELLINGS.get(name, name): name for name in table.column_names}
    labels = columns.pop("y", None)
    if column is not None and column not in table.column_names:
        raise ValueError(f"{file} has no column {column}. It has {', '.join(table.column_names)}.")
    x = _numbers(table, list(columns.values()) if column is None else [column], file)
    return {"x": x} if labels is None else {"x": x, "y": np.asarray(table.column(labels).to_pylist())}


def _numbers(table: Any, names: list[str], file: Path) -> NDArray[Any]:
    """The one column of lists, or all columns of numbers side by side; names and other texts are passed over."""
    from vergence.data.shards import tables as columns

    lists = [name for name in names if columns.form_of(table.schema.field(name).type) == "array"]
    single = [name for name in names if columns.is_number(table.schema.field(name).type)]
    if lists:
        found = columns.stacked(table, lists[0])
        if found is None:
            raise ValueError(
                f"{file}: the lists in column {lists[0]} differ in length, or some are missing; expected one length."
            )
        return found
    if not single:
        raise ValueError(f"{file} has no column of numbers.")
    return np.column_stack([table.column(name).to_numpy() for name in single])
