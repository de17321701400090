"""A program whose optimizer state streams through a store, by the Python package: what each call does, what is refused and
how exceptions come back. It says "done" when all was right. storing.py FOLDER, which is there and empty."""

import array
import ctypes
import os
import sys

from cuda_driver import allocate, check, load, retain
from parkade.store import Adam, Entry, Segment, Store, StoreCode, StoreError

FOLDER = sys.argv[1]
SIZES = {"layer0": 5000, "layer1": 31, "layer2": 70_001}
cuda = load()
retain(cuda, 0)


class Array:
    """float32 in GPU memory."""

    def __init__(self, values):
        self.elements = len(values)
        self.address = allocate(cuda, 4 * len(values)).value
        self.set(values)

    def set(self, values):
        check(cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(self.address), array.array("f", values).tobytes(), ctypes.c_size_t(4 * len(values))), "cuMemcpyHtoD")

    def get(self):
        return read(self.address, self.elements)

    @property
    def __cuda_array_interface__(self):
        return {"version": 3, "shape": (self.elements,), "typestr": "<f4", "data": (self.address, False), "strides": None}


def read(address, elements):
    found = ctypes.create_string_buffer(4 * elements)
    check(cuda.cuMemcpyDtoH_v2(found, ctypes.c_uint64(address), ctypes.c_size_t(4 * elements)), "cuMemcpyDtoH")
    return list(array.array("f", found.raw))


def write(address, values):
    check(cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(address), array.array("f", values).tobytes(), ctypes.c_size_t(4 * len(values))), "cuMemcpyHtoD")


def equal(found, wanted, what):
    if found != wanted:
        sys.exit(f"{what}: {str(found)[:200]}, must be {str(wanted)[:200]}")


def fails(code, call):
    try:
        call()
    except StoreError as error:
        equal(error.code, code, f"code of {error}")
        return str(error)
    sys.exit(f"{code.name} must be raised")


weights = {name: Array([i % 17 / 8 for i in range(size)]) for name, size in SIZES.items()}
gradients = {name: Array([i % 5 - 2 for i in range(size)]) for name, size in SIZES.items()}
entries = [Entry(name, [size], weight=weights[name], gradient=gradients[name], group=n % 2, user_tag=n) for n, (name, size) in enumerate(SIZES.items())]
model = {name: weights[name].get() for name in SIZES}  # what the weights must be


def open_store(name="py", **options):
    return Store(entries, name=name, directories=[FOLDER], bucket_elements=4096, in_memory=True, **options)


def descend(bucket):
    """main -= gradient / 2, and the first moment counts the steps."""
    for piece in bucket.pieces:
        name = list(SIZES)[piece.entry]
        equal(piece.user_tag, piece.entry, "user tag")
        main, first = bucket.view(0, piece), bucket.view(1, piece)
        slope = gradients[name].get()[piece.param_begin:piece.param_begin + piece.elements]
        write(main.address, [m - g / 2 for m, g in zip(read(main.address, main.elements), slope)])
        write(first.address, [bucket.step] * piece.elements)


def moved():
    for name, values in model.items():
        model[name] = [w - g / 2 for w, g in zip(values, gradients[name].get())]


def is_right(what):
    check(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
    for name, values in model.items():
        equal(weights[name].get(), values, f"{name} {what}")


with open_store() as store:
    equal(store.stats().committed, None, "step of a new store")
    said = fails(StoreCode.STATE, lambda: store.begin(1))
    equal("filled" in said, True, f"sentence: {said}")
    store.fill()
    store.step(1, descend)
    moved()
    is_right("after a callback")
    for bucket in store.buckets(2):
        equal(bucket.segments[0].__cuda_array_interface__["shape"], (bucket.elements,), "shape of a segment")
        descend(bucket)
    moved()
    is_right("after a loop")

    # What a callback raises comes back; nothing was written, so the step can be made again.
    def broken(bucket):
        raise KeyError(bucket.step)
    try:
        store.step(3, broken)
        sys.exit("KeyError must be raised")
    except KeyError as error:
        equal(error.args, (3,), "the callback's own exception")
    for bucket in store.buckets(3):
        break  # leaving the loop gives the step up
    store.step(3, descend)
    moved()
    is_right("after a step that was made again")
    fails(StoreCode.STEP, lambda: store.begin(5))

    # Saved, while a step goes on; the first moment was the step's number.
    ckpt = os.path.join(FOLDER, "checkpoints")
    os.mkdir(ckpt)
    store.save(ckpt, user=b"three")
    at_three = {name: list(values) for name, values in model.items()}
    store.step(4, descend)
    moved()
    equal(store.save_wait(20), True, "the checkpoint is complete")
    store.drain(20)
    stats = store.stats()
    equal((stats.committed, stats.open, stats.read_bytes > 0, stats.written_bytes > 0), (4, False, True, True), "figures")
    fails(StoreCode.STEP, lambda: store.load(ckpt))  # it is filled

equal(sorted(os.listdir(FOLDER)), ["checkpoints"], "files that a closed store has left")
try:
    store.drain()
    sys.exit("ValueError must be raised")
except ValueError:
    pass

with open_store() as store:
    store.load(ckpt)
    model.update(at_three)
    is_right("after a load")
    for bucket in store.buckets(4):
        for piece in bucket.pieces:
            first = bucket.view(1, piece)
            equal(set(read(first.address, first.elements)), {3.0}, "the first moment that was loaded")
        descend(bucket)
    moved()
    is_right("after a load and a step")

# Adam: with a fresh state the first step is lr times the gradient's sign.
for name, values in model.items():
    weights[name].set([1.0] * len(values))
with open_store(segments=[Segment("main"), Segment("exp_avg", "bf16"), Segment("exp_avg_sq", "bf16")]) as store:
    store.fill()
    equal(store.step_adam(1, [Adam(lr=0.25, eps=0.0), Adam(lr=0.5, eps=0.0)], skip_nonfinite=True), True, "a step was made")
    check(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
    for n, name in enumerate(SIZES):
        rate = (0.25, 0.5)[n % 2]
        for weight, slope in zip(weights[name].get(), gradients[name].get()):
            wanted = 1 - rate * ((slope > 0) - (slope < 0))
            if slope and abs(weight - wanted) > 1e-5:
                sys.exit(f"{name}: {weight}, must be {wanted}")
    gradients["layer1"].set([float("inf")] * SIZES["layer1"])
    equal(store.step_adam(2, [Adam(lr=1), Adam(lr=1)], skip_nonfinite=True), False, "a step with an infinite gradient")
    equal(store.stats().committed, 1, "the step after a skipped one")

for wrong in (dict(name="a/b"), dict(segments=[Segment("exp_avg", "e4m3")]), dict(slots=1000)):
    fails(StoreCode.INVAL, lambda wrong=wrong: open_store(**wrong))
for wrong in ({"typestr": "<i4"}, {"strides": (8,)}):
    class Wrong:
        __cuda_array_interface__ = {**weights["layer0"].__cuda_array_interface__, **wrong}
    try:
        Store([Entry("x", [4], weight=Wrong())], directories=[FOLDER])
        sys.exit("ValueError must be raised")
    except ValueError as error:
        equal("contiguous" in str(error), True, f"sentence: {error}")
print("done", flush=True)
