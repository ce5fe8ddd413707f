"""PyTorch's scaled_dot_product_attention, as a contestant of `splitq bench`: on the CPU, or on a CUDA device with its flash
backend (its build of FlashAttention-2) forced.

Reads one JSON request a line on stdin and answers each with one JSON line on stdout. Tensors travel through a
shared file; what is timed is the attention call alone, on contiguous (B, H, S, D) tensors, the layout it prefers. On a CUDA
device events around each call take the time.
"""

import contextlib
import ctypes
import json
import sys
import time


def resident(key):
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(key + ":"):
                return 1024 * int(line.split()[1])


def peak_during(call):
    """Bytes that the resident set rose by at most, or None where the system doesn't tell."""
    try:
        ctypes.CDLL(None).malloc_trim(0)  # memory kept from earlier calls would hide a rise
        with open("/proc/self/clear_refs", "w") as refs:
            refs.write("5")
        before = resident("VmRSS")
        call()
        return resident("VmHWM") - before
    except (OSError, AttributeError):
        call()
        return None


class Device:
    """Where it runs, and a clock for what runs there."""

    def __init__(self, torch, name):
        self.torch, self.name, self.on_cuda = torch, name, name != "cpu"
        if self.on_cuda:
            torch.cuda.set_device(name)
        self.matrices = None

    def kernels(self):
        if not self.on_cuda:
            return contextlib.nullcontext()
        from torch.nn.attention import SDPBackend, sdpa_kernel

        return sdpa_kernel(SDPBackend.FLASH_ATTENTION)

    def seconds(self, call):
        if not self.on_cuda:
            start = time.perf_counter()
            call()
            return time.perf_counter() - start
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.torch.cuda._sleep(1_000_000)  # while the GPU is busy the launch is queued: no host time between the events
        begin.record()
        call()
        end.record()
        end.synchronize()
        return 1e-3 * begin.elapsed_time(end)

    def peak(self, call):
        if not self.on_cuda:
            return peak_during(call)
        self.torch.cuda.synchronize()
        self.torch.cuda.reset_peak_memory_stats()
        before = self.torch.cuda.memory_allocated()
        call()
        self.torch.cuda.synchronize()
        return self.torch.cuda.max_memory_allocated() - before

    def matmul_seconds(self, size):
        if self.matrices is None:
            self.matrices = [self.torch.randn(size, size, device=self.name, dtype=self.torch.bfloat16) for _ in range(2)]
            self.torch.matmul(*self.matrices)
        return self.seconds(lambda: self.torch.matmul(*self.matrices))


class Sdpa:
    def __init__(self, device, request):
        torch = device.torch
        self.torch, self.device, self.request = torch, device, request
        dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[request["dtype"]]
        self.shared = torch.from_file(request["file"], shared=True, size=request["bytes"], dtype=torch.uint8)
        self.dtype, self.backward = dtype, request["backward"]
        self.options = {"is_causal": request["causal"]}
        self.copies = []
        for places in request["copies"]:
            q, k, v = (self.load(places[name]) for name in ("q", "k", "v"))
            if q.shape[1] != k.shape[1]:
                self.options["enable_gqa"] = True
            dout = self.load(places["dout"]) if self.backward else None
            if self.backward:
                for x in (q, k, v):
                    x.requires_grad_()
            self.copies.append([q, k, v, dout, None])
        self.next = 0

    def mapped(self, place):
        """The tensor (B, S, H, D) in the shared file, seen as (B, H, S, D)."""
        count = self.dtype.itemsize
        for n in place["shape"]:
            count *= n
        return self.shared[place["offset"] : place["offset"] + count].view(self.dtype).view(place["shape"]).transpose(1, 2)

    def load(self, place):
        return self.mapped(place).contiguous().clone().to(self.device.name)

    def sdpa(self, copy):
        with self.device.kernels():
            return self.torch.nn.functional.scaled_dot_product_attention(*copy[:3], **self.options)

    def prepare(self):
        """First call of everything, and the extra memory of forward and backward together."""

        def call():
            copy = self.copies[0]
            copy[4] = self.sdpa(copy)
            if self.backward:
                self.grad(copy)

        peak = self.device.peak(call)
        results = self.torch.autograd.grad if self.backward else None
        copy = self.copies[0]
        asked = copy[:3] if results else [copy[4]]  # results themselves are not extra
        if peak is not None:
            peak = max(0, peak - sum(x.numel() * x.element_size() for x in asked))
        return peak

    def grad(self, copy):
        q, k, v, dout, out = copy
        return self.torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)

    def call(self):
        copy = self.copies[self.next % len(self.copies)]
        self.next += 1
        if self.backward:
            return self.grad(copy)
        with self.torch.no_grad():
            return (self.sdpa(copy),)

    def time(self, calls):
        if self.device.on_cuda:
            return sum(self.device.seconds(self.call) for _ in range(calls))
        start = time.perf_counter()
        for _ in range(calls):
            self.call()
        return time.perf_counter() - start

    def fetch(self):
        self.next = 0
        for result, name in zip(self.call(), ("dq", "dk", "dv") if self.backward else ("out",)):
            self.mapped(self.request["copies"][0][name]).copy_(result)


def answer(**fields):
    print(json.dumps(fields), flush=True)


def main():
    threads = int(sys.argv[1])
    try:
        import torch

        torch.set_num_threads(threads)
        torch.nn.functional.scaled_dot_product_attention  # 2.0 and later
        device = Device(torch, sys.argv[2])
    except Exception as error:
        answer(error=f"{error}")
        return
    answer(version=torch.__version__, threads=torch.get_num_threads())
    case = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["op"] == "prepare":
                case = None
                case = Sdpa(device, request)
                answer(extra_bytes=case.prepare())
            elif request["op"] == "time":
                answer(seconds=case.time(request["calls"]))
            elif request["op"] == "matmul":
                answer(seconds=device.matmul_seconds(request["size"]))
            elif request["op"] == "fetch":
                case.fetch()
                answer()
            elif request["op"] == "finish":
                case = None
                answer()
        except Exception as error:
            answer(error=f"{type(error).__name__}: {error}")


main()
