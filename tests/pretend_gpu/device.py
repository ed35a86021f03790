"""A pretend GPU for torch, which cannot be taken back: import this in a process of its own. Tensors of the device "gpu" keep
their data in CPU memory and refuse to meet CPU tensors; whatever would make Python wait for a GPU is counted."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

WAITS: Counter[tuple[str, str]] = Counter()
"""(kind, place) → times. Kinds: `read` (data or a size comes back), `upload` (from memory that is not pinned, for which CUDA
waits until all before it is done), `wait` (asked for)."""
READS = {
    "_local_scalar_dense", "_unique2", "equal", "is_nonzero", "masked_select", "nonzero", "unique_consecutive", "unique_dim",
}  # fmt: skip
INDEXED = {"index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_"}
"""Operations that take CPU indices too, and upload them."""
ACROSS = {"copy_", "_copy_from", "_to_copy"}
WHOLE = {"linear", "matmul", "scaled_dot_product_attention"}
"""Operations that are not decomposed, for the bits of the CPU's."""
PACKAGE = "specchat/"
"""Part of the path of files that count as places."""
MEMORY = 8 << 30

_thread = threading.local()
_pinned: set[int] = set()


def _is_gpu(value: object) -> bool:
    return isinstance(value, torch.device) and value.type == "gpu"


def _is_ours(path: str) -> bool:
    return PACKAGE in path and "site-packages" not in path and path != __file__


def _note(kind: str) -> None:
    """Count one wait."""
    if getattr(_thread, "captured", None) is not None:
        raise RuntimeError(f"operation not permitted when stream is capturing ({kind})")
    frame = sys._getframe(1)
    while frame.f_back is not None and not _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    code = frame.f_code
    WAITS[kind, f"{code.co_filename.rpartition(PACKAGE)[2]}:{frame.f_lineno} {code.co_name}"] += 1


class GpuTensor(torch.Tensor):
    """A tensor on the pretend GPU; `held` has its data."""

    held: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls: type[GpuTensor], held: torch.Tensor, device: torch.device) -> GpuTensor:
        tensor: GpuTensor = torch.Tensor._make_wrapper_subclass(
            cls, held.size(), strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype, device=device
        )
        tensor.held = held
        return tensor

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return _run(func, *args, **(kwargs or {}))

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() first.")

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def __format__(self, form: str) -> str:
        return format(self.item() if self.dim() == 0 else self, form) if form else repr(self)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"{self.held!r} on {self.device}"


def _check(name: str, args: Sequence[Any], kwargs: dict[str, Any], tensors: Sequence[torch.Tensor]) -> None:
    """Refuse what a GPU refuses, and count what waits for it."""
    if name in ACROSS:
        source = args[name == "copy_"]
        target = kwargs.get("device") or source.device if name == "_to_copy" else args[name == "_copy_from"].device
        if source.device.type == target.type or "meta" in (source.device.type, target.type):
            return
        host = [tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.device.type == "cpu"]
        if not (kwargs.get("non_blocking") or args[2:3] == (True,)) or not _pinned.issuperset(host):
            _note("upload" if _is_gpu(target) else "read")
        return
    if not any(isinstance(tensor, GpuTensor) for tensor in tensors):
        return
    indices = [index for index in args[1] if index is not None] if name in INDEXED else []
    tensors_ = [tensor for tensor in tensors if not any(tensor is index for index in indices)]
    # A tensor of one number may come from the CPU, and so may indices.
    meeting = [tensor for tensor in tensors_ if tensor.dim() > 0 or isinstance(tensor, GpuTensor)]
    meeting += [index for index in indices if isinstance(index, GpuTensor)]
    if len({tensor.device for tensor in meeting}) > 1:
        shapes = ", ".join(f"{tensor.device} {list(tensor.shape)}" for tensor in tensors)
        raise RuntimeError(f"{name}: expected all tensors to be on the same device, but found {shapes}")
    for index in indices:
        if index.device.type == "cpu":
            _note("upload")
        if index.dtype in (torch.bool, torch.uint8):
            _note("read")
    if name in READS or (name == "repeat_interleave" and kwargs.get("output_size") is None):
        _note("read")


@contextmanager
def without_float64() -> Iterator[None]:
    """Refuse tensors of float64, as MPS does."""
    _thread.single = True
    try:
        yield
    finally:
        _thread.single = False


def _run(func: Any, *args: Any, **kwargs: Any) -> Any:
    """Run one operation below autograd, on the data."""
    name = func._schema.name.rpartition("::")[2]
    dispatched = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
    if name not in WHOLE and dispatched:
        return func.decompose(*args, **kwargs)
    flat, spec = pytree.tree_flatten((args, kwargs))
    tensors = [value for value in flat if isinstance(value, torch.Tensor)]
    _check(name, args, kwargs, tensors)
    base = next((tensor for tensor in tensors if isinstance(tensor, GpuTensor)), None)
    target = kwargs.get("device") or (base.device if base is not None else None)
    device = torch.device("gpu", target.index or 0) if target is not None and _is_gpu(target) else None
    plain = [_on_cpu(value) for value in flat]
    same = {id(data): value for data, value in zip(plain, flat, strict=True) if isinstance(value, torch.Tensor)}
    plain_args, plain_kwargs = pytree.tree_unflatten(plain, spec)
    work = _histogram if name == "histc" else func
    result = work(*plain_args, **plain_kwargs)
    if any(isinstance(tensor, GpuTensor) and tensor.shape != tensor.held.shape for tensor in tensors):
        raise NotImplementedError(f"{name} changes a shape in place")
    if device is not None and getattr(_thread, "single", False) and getattr(result, "dtype", None) == torch.float64:
        raise RuntimeError(f"{name}: this device has no float64")
    if device is not None and getattr(_thread, "captured", None) is not None:
        _thread.captured.append((work, plain_args, plain_kwargs, result))
    # Outside and inside inference mode a view is what its base is.
    is_view = base is not None and any(one.alias_info is not None for one in func._schema.returns)
    inference = base.is_inference() if base is not None and is_view else torch.is_inference_mode_enabled()

    def wrapped(data: torch.Tensor) -> torch.Tensor:
        if id(data) in same:
            return same[id(data)]
        return data if device is None else GpuTensor(data, device)

    with torch.inference_mode(inference):
        return pytree.tree_map_only(torch.Tensor, wrapped, result)


def _on_cpu(value: Any) -> Any:
    if isinstance(value, GpuTensor):
        return value.held
    return torch.device("cpu") if _is_gpu(value) else value


def _histogram(values: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """The CPU's takes no integers."""
    return torch.histc(values.double(), *args, **kwargs).to(values.dtype)


class Graph:
    """Operations on the pretend GPU, to be done again on the same tensors."""

    work: list[tuple[Any, Any, Any, Any]]

    def replay(self) -> None:
        for func, args, kwargs, result in self.work:
            repeated = func(*args, **kwargs)
            for old, new in zip(pytree.tree_leaves(result), pytree.tree_leaves(repeated), strict=True):
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


@contextmanager
def _capture(graph: Graph, pool: Any = None, **options: Any) -> Iterator[None]:
    _thread.captured = graph.work = []
    try:
        yield
    finally:
        _thread.captured = None


def _stream(device: Any = None) -> SimpleNamespace:
    return SimpleNamespace(wait_stream=lambda other: None, synchronize=lambda: _note("wait"))


def _pin(tensor: torch.Tensor) -> torch.Tensor:
    _pinned.add(tensor.untyped_storage().data_ptr())
    return tensor


class PretendGpu(_DummyBackendModule):
    """The parts of `torch.cuda` that specchat uses, as `torch.gpu`."""

    CUDAGraph = Graph
    Stream = staticmethod(_stream)
    current_stream = staticmethod(_stream)
    stream = staticmethod(nullcontext)
    device = staticmethod(nullcontext)
    graph = staticmethod(_capture)
    graph_pool_handle = staticmethod(lambda: None)
    synchronize = staticmethod(lambda device=None: _note("wait"))
    empty_cache = staticmethod(lambda: None)
    mem_get_info = staticmethod(lambda device=None: (MEMORY, MEMORY))
    device_count = staticmethod(lambda: 2)
    get_device_name = staticmethod(lambda device=None: "pretend")


_setup_privateuseone_for_python_backend("gpu", PretendGpu())
torch.Tensor.pin_memory = _pin  # type: ignore[assignment,method-assign]
_library: Any = torch.library.Library
_fallback, _aten = _library("_", "IMPL"), _library("aten", "IMPL")
_fallback.fallback(_run, "PrivateUse1")
# torch would make these of others below Python: a copy of bytes, and one that resizes what it was given.
_arange: Any = torch.ops.aten.arange
_copy: Any = torch.ops.aten.copy_.default
for _operation in (_arange.default, _arange.start, _arange.start_step, _copy):
    _aten.impl(_operation.name(), partial(_run, _operation), "PrivateUse1")
