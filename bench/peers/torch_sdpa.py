"""PyTorch's scaled_dot_product_attention on the CPU, as a contestant of `splitq bench`.

Reads one JSON request a line on stdin and answers each with one JSON line on stdout. Tensors travel through a
shared file; what is timed is the attention call alone, on contiguous (B, H, S, D) tensors, the layout it prefers.
"""

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


class Sdpa:
    def __init__(self, torch, request):
        self.torch, self.request = torch, request
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
        return self.mapped(place).contiguous().clone()

    def sdpa(self, copy):
        return self.torch.nn.functional.scaled_dot_product_attention(*copy[:3], **self.options)

    def prepare(self):
        """First call of everything, and the extra memory of forward and backward together."""

        def call():
            copy = self.copies[0]
            copy[4] = self.sdpa(copy)
            if self.backward:
                self.grad(copy)

        peak = peak_during(call)
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
                case = Sdpa(torch, request)
                answer(extra_bytes=case.prepare())
            elif request["op"] == "time":
                answer(seconds=case.time(request["calls"]))
            elif request["op"] == "fetch":
                case.fetch()
                answer()
            elif request["op"] == "finish":
                case = None
                answer()
        except Exception as error:
            answer(error=f"{type(error).__name__}: {error}")


main()
