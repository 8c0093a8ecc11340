"""JPEG decoders of others on one device, for jpeg_on_device.py: each makes batches of 224x224 on streams of its own."""
import ctypes
import glob
import importlib
import io
import os
import site
import sys

BACKENDS = {"hybrid": 1, "gpu_hybrid": 2, "hardware": 3, "gpu_hybrid_device": 4, "hardware_device": 5}  # nvjpegBackend_t
RGB = 3  # NVJPEG_OUTPUT_RGB: planes


class Missing(Exception):
    """Why a decoder does not run here."""


class NvjpegImage(ctypes.Structure):  # nvjpegImage_t
    _fields_ = [("channel", ctypes.c_void_p * 4), ("pitch", ctypes.c_size_t * 4)]


def frame_of(data):
    """Height and width of a baseline JPEG of three components, which every back end takes; None for any other file."""
    at = 2
    while data[:2] == b"\xff\xd8" and at + 9 < len(data) and data[at] == 0xFF:
        if data[at + 1] == 0xC0:
            return (data[at + 5] << 8 | data[at + 6], data[at + 7] << 8 | data[at + 8]) if data[at + 9] == 3 else None
        at += 1 if data[at + 1] == 0xFF else 2 + (data[at + 2] << 8 | data[at + 3])
    return None


def module_of(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Missing(f"no {name}: {error}") from None


class Lane:
    """Decodes one batch, again and again, on a stream. A worker's lanes share what `open` returns."""
    one_worker, lanes = False, 2  # one worker: the library divides a batch among threads itself

    def __init__(self, machine, files, opened):
        self.machine, self.files, self.opened, self.stream = machine, files, opened, machine.stream()
        with machine.using(self.stream):
            self.prepare()

    @classmethod
    def open(cls, machine, threads):
        return None

    def prepare(self):
        pass

    def run(self):
        with self.machine.using(self.stream):
            self.images = self.decode()
            self.made = self.machine.resized(self.images)

    def wait(self):
        self.stream.synchronize()

    def close(self):
        pass


class Torchvision(Lane):
    def prepare(self):
        self.library = module_of("torchvision.io")
        self.data = [self.machine.torch.frombuffer(bytearray(f), dtype=self.machine.torch.uint8) for f in self.files]

    def decode(self):
        return self.library.decode_jpeg(self.data, self.library.ImageReadMode.RGB, self.machine.device)


class Nvjpeg(Lane):
    """nvjpegDecodeBatched of one back end; subclasses name it."""
    backend = ""

    @classmethod
    def open(cls, machine, threads):
        library = nvjpeg_of(machine)
        handle = ctypes.c_void_p()
        call(library, "CreateEx", BACKENDS[cls.backend], None, None, 0, ctypes.byref(handle))
        return library, handle

    @classmethod
    def facts(cls, machine):
        """The library's version, which needs no GPU, and the number of its hardware engines, or why that is unknown."""
        library, values = nvjpeg_of(machine), [ctypes.c_int() for _ in range(3)]
        for which, value in enumerate(values):
            call(library, "GetProperty", which, ctypes.byref(value))
        facts = {"path": os.path.basename(library.path), "version": ".".join(str(v.value) for v in values)}
        try:
            handle, engines, cores = cls.open(machine, 1)[1], ctypes.c_uint(), ctypes.c_uint()
            call(library, "GetHardwareDecoderInfo", handle, ctypes.byref(engines), ctypes.byref(cores))
            return dict(facts, hardware_engines=engines.value, cores_of_each=cores.value)
        except (RuntimeError, AttributeError) as error:
            return dict(facts, hardware_engines=str(error))

    def prepare(self):
        torch, count = self.machine.torch, len(self.files)
        self.library, self.handle = self.opened
        self.state = ctypes.c_void_p()
        call(self.library, "JpegStateCreate", self.handle, ctypes.byref(self.state))
        call(self.library, "DecodeBatchedInitialize", self.handle, self.state, count, 1, RGB)
        self.targets, self.results = (NvjpegImage * count)(), []
        for target, data in zip(self.targets, self.files):
            height, width = frame_of(data)
            image = torch.empty((3, height, width), dtype=torch.uint8, device=self.machine.device)
            self.results.append(image)
            for plane in range(3):
                target.channel[plane], target.pitch[plane] = image[plane].data_ptr(), width
        self.lengths = (ctypes.c_size_t * count)(*map(len, self.files))
        self.staged = None
        if not self.backend.endswith("_device"):
            self.sources = (ctypes.c_void_p * count)(*(ctypes.cast(ctypes.c_char_p(f), ctypes.c_void_p) for f in self.files))
            return
        ends = [sum(len(f) + 255 & -256 for f in self.files[:i]) for i in range(count + 1)]
        self.staged = torch.zeros(ends[-1], dtype=torch.uint8, pin_memory=not self.machine.args.rehearse)
        for at, data in zip(ends, self.files):
            self.staged[at:at + len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        self.bytes = torch.empty(ends[-1], dtype=torch.uint8, device=self.machine.device)
        self.sources = (ctypes.c_void_p * count)(*(self.bytes.data_ptr() + at for at in ends[:-1]))

    def decode(self):
        if self.staged is not None:
            self.bytes.copy_(self.staged, non_blocking=True)
        call(self.library, "DecodeBatched", self.handle, self.state, self.sources, self.lengths, self.targets,
             self.stream.cuda_stream)
        return self.results

    def close(self):
        call(self.library, "JpegStateDestroy", self.state)


class Nvimgcodec(Lane):
    @classmethod
    def open(cls, machine, threads):
        library = module_of("nvidia.nvimgcodec")
        host = {"device_id": library.NVIMGCODEC_DEVICE_CPU_ONLY, "backends": [library.Backend(library.BackendKind.CPU_ONLY)]}
        return library, library.Decoder(max_num_cpu_threads=threads, **host if machine.args.rehearse else {"device_id": 0})

    def prepare(self):
        library, self.decoder = self.opened
        self.parameters, self.kept = library.DecodeParams(apply_exif_orientation=False), None
        self.keeps = "images:" in (library.Decoder.decode.__doc__ or "")  # newer ones can use memory again

    def decode(self):
        again = {"images": self.kept} if self.kept and self.keeps else {}
        self.kept = self.decoder.decode(self.files, params=self.parameters, cuda_stream=self.stream.cuda_stream, **again)
        if None in self.kept:
            raise RuntimeError(f"{self.kept.count(None)} images were not decoded")
        return [self.tensor(image).permute(2, 0, 1) for image in self.kept]

    def tensor(self, image):
        torch = self.machine.torch
        if self.machine.args.rehearse:
            import numpy
            return torch.from_numpy(numpy.array(image))
        try:
            return torch.as_tensor(image, device=self.machine.device)
        except (TypeError, RuntimeError):
            return torch.from_dlpack(image)


class NvimgcodecPool(Nvimgcodec):
    one_worker = True


class Dali(Lane):
    one_worker, lanes = True, 1  # it prepares batches ahead itself

    @classmethod
    def open(cls, machine, threads):
        return (*(module_of(f"nvidia.dali.{name}") for name in ("fn", "pipeline", "types")), threads)

    def prepare(self):
        import numpy
        (fn, pipeline, types, threads), on_host = self.opened, self.machine.args.rehearse
        data = [numpy.frombuffer(f, dtype=numpy.uint8) for f in self.files]
        self.pipe = pipeline.Pipeline(batch_size=len(data), num_threads=threads, device_id=None if on_host else 0)
        with self.pipe:
            encoded = fn.external_source(source=lambda: data, batch=True, no_copy=True)
            images = fn.decoders.image(encoded, device="cpu" if on_host else "mixed", output_type=types.RGB)
            self.pipe.set_outputs(fn.resize(images, size=(224, 224)))
        self.pipe.build()
        self.images = None  # only resized ones leave the pipeline

    def run(self):
        self.made = self.pipe.run()


DECODERS = {"torchvision": Torchvision, "nvimgcodec": Nvimgcodec, "nvimgcodec_pool": NvimgcodecPool,
            "dali": Dali, **{f"nvjpeg_{name}": type(name, (Nvjpeg,), {"backend": name}) for name in BACKENDS}}
ORDER = ["torchvision", "nvjpeg_hardware", "nvjpeg_gpu_hybrid", "nvimgcodec", "nvimgcodec_pool", *DECODERS]  # then the others


def call(library, name, *arguments):
    status = getattr(library, "nvjpeg" + name)(*arguments)
    if status != 0:
        raise RuntimeError(f"nvjpeg{name} returns nvjpegStatus_t {status}")


def carried():
    """Wheels that were unpacked beside this file."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "wheels")
    return [folder] if os.path.isdir(folder) else []


def nvjpeg_of(machine):
    """libnvjpeg of a wheel, of torchvision or of the CUDA toolkit; of PyTorch's CUDA version, if there are several."""
    folders = carried() + site.getsitepackages() + [site.getusersitepackages()] + sys.path
    found = [f for d in folders for p in ("nvidia/*/lib", "torchvision.libs") for f in glob.glob(f"{d}/{p}/libnvjpeg*.so*")]
    for where in ("/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib", "/usr/lib/*-linux-gnu"):
        found += sorted(glob.glob(f"{where}/libnvjpeg.so*"))
    major = (machine.torch.version.cuda or "").split(".")[0]
    found.sort(key=lambda path: f".so.{major}" not in path)
    errors = []
    for path in [machine.args.nvjpeg] if machine.args.nvjpeg else found:
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            errors.append(str(error))
            continue
        handle, number, out = ctypes.c_void_p, ctypes.c_int, ctypes.POINTER
        for name, arguments in {
                "GetProperty": [number, out(number)],
                "GetHardwareDecoderInfo": [handle, out(ctypes.c_uint), out(ctypes.c_uint)],
                "CreateEx": [number, handle, handle, ctypes.c_uint, out(handle)],
                "JpegStateCreate": [handle, out(handle)], "JpegStateDestroy": [handle],
                "DecodeBatchedInitialize": [handle, handle, number, number, number],
                "DecodeBatched": [handle, handle, out(handle), out(ctypes.c_size_t), out(NvjpegImage), handle]}.items():
            if hasattr(library, "nvjpeg" + name):
                getattr(library, "nvjpeg" + name).argtypes = arguments
        library.path = path
        return library
    raise Missing("no libnvjpeg" + "".join(f"; {error}" for error in errors[:2]))


def reference(machine, files):
    """Pixels of libjpeg-turbo: Pillow's, or torchvision's on the CPU."""
    try:
        import numpy
        from PIL import Image
        return [machine.torch.from_numpy(numpy.array(Image.open(io.BytesIO(f)).convert("RGB"))).permute(2, 0, 1) for f in files]
    except ImportError:
        from torchvision import io as images
        data = [machine.torch.frombuffer(bytearray(f), dtype=machine.torch.uint8) for f in files]
        return [images.decode_jpeg(d, images.ImageReadMode.RGB) for d in data]
