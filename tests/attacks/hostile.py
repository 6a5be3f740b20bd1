"""Files made to keep the processor busy or to fill the memory, and files that say a thing twice.

Each function writes one into a folder, and returns its path and what `load` is to be told.
"""

import io
import json
import os
import pickle
import shutil
import struct
import zipfile
import zlib
from pathlib import Path

import h5py
import numpy as np

FIXTURES = Path(__file__).parents[1] / "fixtures"
ATTACKS = {}


def attack(make):
    """List an attack under its name."""
    ATTACKS[make.__name__] = make
    return make


# ------------------------------------------------------------------------------------------------------------- pickles


def reference(folder, model):
    """The folder of LRP_for_LSTM with a pickle of our own as its model."""
    path = folder / "reference"
    shutil.copytree(FIXTURES / "reference" / "reference4", path)
    (path / "model").write_bytes(model)
    return path, {}


def saved(folder, content, **members):
    """A file of torch.save with a pickle of our own."""
    path = folder / "model.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", content)
        archive.writestr("archive/byteorder", b"little")
        for name, data in members.items():
            archive.writestr(f"archive/data/{name}", data)
    return path, {}


LEGACY = pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2) + pickle.dumps({"little_endian": True}, 2)


def legacy(folder, content):
    """A file of torch.save in the older format with a pickle of our own."""
    path = folder / "model.pth"
    path.write_bytes(LEGACY + content)
    return path, {}


def nested(levels=60):
    """A list that holds a list twice that holds a list twice …: as text it has 2**60 brackets."""
    made = b"".join(b"(h%ch%clq%c0" % (k, k, k + 1) for k in range(levels))  # each remembered, and taken off again
    return b"\x80\x02]q\x000" + made + b"h%c" % levels


def array_state(shape, data=b"U\x04abcd"):
    """A pickled dict with an array of NumPy of any shape."""
    name = b"X\x08\x00\x00\x00Whh_Left"
    made = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    dtype = b"cnumpy\ndtype\nU\x02f4K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    return b"\x80\x02}" + name + made + b"(K\x01" + shape + dtype + b"\x89" + data + b"tbs."


HUGE = b"\x8b" + struct.pack("<i", 100_000) + b"\x7f" * 100_000  # a whole number of 100,000 bytes


@attack
def memo_lists_as_the_model(folder):
    return reference(folder, nested() + b".")


@attack
def memo_lists_as_a_word(folder):
    path, _ = reference(folder, (FIXTURES / "reference" / "reference4" / "model").read_bytes())
    (path / "vocab").write_bytes(b"\x80\x02(" + nested()[2:] + b"l.")
    return path, {}


@attack
def memo_lists_as_the_type_of_an_array(folder):
    content = array_state(b"K\x01\x85").replace(b"U\x02f4", nested()[2:])
    return reference(folder, content)


@attack
def memo_lists_as_a_shape(folder):
    return reference(folder, array_state(nested()[2:] + b"\x85"))


@attack
def memo_tuples_as_a_key(folder):
    return reference(folder, b"\x80\x02}" + b")" + b"2\x86" * 64 + b"K\x01s.")


@attack
def memo_tuples_as_a_key_of_torch(folder):
    return saved(folder, b"\x80\x02}" + b")" + b"2\x86" * 64 + b"K\x01s.")


@attack
def a_hostile_shape(folder):
    return reference(folder, array_state(b"(" + b"\x8a\x08" + b"\xff" * 7 + b"\x7fq\x01" + b"h\x01" * 300_000 + b"t"))


@attack
def references_to_a_huge_integer(folder):
    return reference(folder, array_state(b"(" + HUGE + b"q\x01" + b"h\x01" * 20_000 + b"t"))


@attack
def a_number_of_a_million_digits(folder):
    return reference(folder, b"L" + b"9" * 1_000_000 + b"L\n.")


@attack
def thirty_megabytes_of_lists(folder):
    return reference(folder, b"\x80\x02" + b"]" * 30_000_000 + b".")


@attack
def thirty_megabytes_of_lists_in_torch(folder):
    return saved(folder, b"\x80\x02" + b"]" * 30_000_000 + b".")


@attack
def thirty_megabytes_of_lists_in_torch_legacy(folder):
    return legacy(folder, b"\x80\x02" + b"]" * 30_000_000 + b".")


@attack
def lists_inside_lists(folder):
    return saved(folder, b"\x80\x02" + b"]" * 300_000 + b"a" * 299_999 + b".")


@attack
def thirty_megabytes_of_marks(folder):
    return saved(folder, b"\x80\x02" + b"(" * 30_000_000 + b".")


@attack
def thirty_megabytes_of_memory(folder):
    return saved(folder, b"\x80\x04]" + b"\x94" * 30_000_000 + b".")


@attack
def ten_gigabytes_promised(folder):
    return saved(folder, b"\x80\x04\x8e" + struct.pack("<Q", 10 * 2**30) + b"abc.")


def tensor(key, count, offset, shape, stride, kind=b"FloatStorage"):
    """A pickled tensor of torch."""
    storage = (
        b"(X\x07\x00\x00\x00storagectorch\n"
        + kind
        + b"\nU%c%sU\x03cpu\x8a\x08%s" % (len(key), key, struct.pack("<q", count))
    )
    numbers = [b"(" + b"".join(b"\x8a\x08" + struct.pack("<q", n) for n in one) + b"t" for one in (shape, stride)]
    place = b"\x8a\x08" + struct.pack("<q", offset)
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"tQ" + place + numbers[0] + numbers[1] + b"\x89}tR"


def state(**tensors):
    """A pickled state_dict."""
    items = b"".join(b"U%c%s" % (len(name), name.encode()) + made for name, made in tensors.items())
    return b"\x80\x02}(" + items + b"u."


NETWORK = {
    "weight_ih_l0": tensor(b"0", 24, 0, (8, 3), (3, 1)),
    "weight_hh_l0": tensor(b"1", 16, 0, (8, 2), (2, 1)),
}


def network(change=None):
    """The pickle of an LSTM of 2 units with 3 inputs, one tensor of it replaced by `change`."""
    return state(**{**NETWORK, **(change or {})})


STORAGES = {"0": bytes(96), "1": bytes(64)}


@attack
def a_tensor_of_terabytes(folder):
    return saved(folder, network({"weight_ih_l0": tensor(b"0", 2**40, 0, (8, 2**37), (2**37, 1))}), **STORAGES)


@attack
def a_tensor_with_strides_beyond_its_storage(folder):
    return saved(folder, network({"weight_ih_l0": tensor(b"0", 24, 0, (8, 3), (2**30, 1))}), **STORAGES)


@attack
def a_tensor_with_negative_strides(folder):
    return saved(folder, network({"weight_ih_l0": tensor(b"0", 24, 23, (8, 3), (-3, -1))}), **STORAGES)


@attack
def a_tensor_with_a_storage_that_is_too_short(folder):
    return saved(folder, network({"weight_ih_l0": tensor(b"0", 2**20, 2**19, (8, 3), (3, 1))}), **STORAGES)


@attack
def a_tensor_of_one_number_repeated(folder):
    return saved(folder, network({"weight_ih_l0": tensor(b"0", 24, 0, (8, 2**40), (0, 0))}), **STORAGES)


@attack
def a_tensor_of_one_number_within_the_limit(folder):
    return saved(folder, network({"weight_ih_l0": tensor(b"0", 24, 0, (8, 2**23), (0, 0))}), **STORAGES)


@attack
def a_tensor_of_a_type_that_is_none(folder):
    return saved(folder, network({"weight_ih_l0": tensor(b"0", 24, 0, (8, 3), (3, 1), b"EvilStorage")}), **STORAGES)


@attack
def a_storage_outside_the_archive(folder):
    return saved(folder, network({"weight_ih_l0": tensor(b"../../etc/passwd", 24, 0, (8, 3), (3, 1))}), **STORAGES)


@attack
def a_key_twice_in_a_state_dict(folder):
    twice = network()[:-2] + b"U\x0cweight_ih_l0" + tensor(b"0", 24, 0, (8, 3), (3, 1)) + b"u."
    return saved(folder, twice, **STORAGES)


def module(parts, parameters=b"}"):
    """A pickled module whose sub-modules are `parts`, pairs of name and pickle."""
    items = b"".join(b"U%c%s" % (len(name), name) + made for name, made in parts)
    return b"cnet\nNet\n)\x81}(U\x08_modules}(" + items + b"uU\x0b_parameters" + parameters + b"U\x08_buffers}ub"


@attack
def modules_that_form_a_fan(folder):
    content = b"\x80\x02" + module([], b"}(U\x0cweight_ih_l0" + tensor(b"0", 24, 0, (8, 3), (3, 1)) + b"u") + b"q\x00"
    for k in range(28):
        content += module([(b"a", b"h%c" % k), (b"b", b"h%c" % k)]) + b"q%c" % (k + 1)
    return saved(folder, content + b".", **STORAGES)


@attack
def a_module_inside_itself(folder):
    content = b"\x80\x02cnet\nNet\n)\x81q\x00}(U\x08_modules}U\x01ah\x00sU\x0b_parameters}ub."
    return saved(folder, content)


class Evil:
    """Runs a command when it is unpickled by anyone else."""

    def __reduce__(self):
        return os.system, ("touch owned",)


@attack
def a_command_in_a_checkpoint(folder):
    return saved(folder, pickle.dumps({"epoch": 3, "model": Evil()}, 2))


@attack
def a_command_in_a_legacy_checkpoint(folder):
    return legacy(folder, pickle.dumps({"epoch": 3, "model": Evil()}, 2) + pickle.dumps([], 2))


@attack
def storages_of_the_older_format_beyond_the_end(folder):
    numbers = struct.pack("<q", 2**50)
    return legacy(folder, network() + pickle.dumps(["0", "1"], 2) + numbers)


# ---------------------------------------------------------------------------------------------------------------- HDF5


@attack
def groups_that_form_a_fan(folder):
    path = folder / "fan.h5"
    with h5py.File(path, "w") as file:
        below = file.create_group("g0")
        for k in range(1, 24):
            group = file.create_group(f"g{k}")
            group["a"] = group["b"] = below
            below = group
    return path, {}


@attack
def thousands_of_attributes(folder):
    path = folder / "attributes.h5"
    with h5py.File(path, "w") as file:
        for k in range(2500):
            file.attrs.create(f"layer_names{k}", np.array([f"n{k}"], dtype=h5py.string_dtype()))
    return path, {}


@attack
def overlapping_heaps_of_strings(folder):
    """Heaps that start inside each other: the header of each is the data of an object in all heaps before it."""
    path, count = folder / "heaps.h5", 3000
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = np.array([f"{k:08d}" for k in range(count)], dtype=h5py.string_dtype())
    data = bytearray(path.read_bytes())
    first = data.index(b"GCOL")
    entry = next(k for k in range(len(data)) if data[k : k + 12] == struct.pack("<IQ", 8, first))
    room = len(data)
    data += bytes(32 * count + 16)
    for k in range(count):
        at = room + 32 * k
        data[at : at + 16] = b"GCOL\x01\0\0\0" + struct.pack("<Q", 32 * (count - k) + 16)
        data[at + 16 : at + 32] = struct.pack("<HHIQ", 1, 1, 0, 16)
        data[entry + 16 * k : entry + 16 * k + 16] = struct.pack("<IQI", 8, at, 1)
    path.write_bytes(data)
    return path, {}


@attack
def a_chunk_that_unpacks_to_a_gigabyte(folder):
    from interop import zoo

    import lrpnumpy as lrp

    path = folder / "model.h5"
    lrp.save(zoo.NETWORKS["sentence"].model(), path)
    with h5py.File(path, "r+") as file:
        settings = json.loads(file.attrs["model"])
        settings["inputs"][0]["embedding"]["rows"] = 2**26
        file.attrs["model"] = np.bytes_(json.dumps(settings))
        del file["inputs/x/E"]
        dataset = file.create_dataset("inputs/x/E", (2**26, 4), "<f4", chunks=(2**26, 4), compression="gzip")
        dataset.id.write_direct_chunk((0, 0), b"\x78\x01" + deflated(b"", 2**10) + bytes(4))
    return path, {}


def by_hand(*messages):
    """An HDF5 file whose root group has these messages in its header: kind, content, flags."""

    def make(folder):
        body = b"".join(struct.pack("<HHB3x", kind, len(data), flags) + data for kind, data, flags in messages)
        sizes = struct.pack("<4Q", 0, 2**64 - 1, 112 + len(body), 2**64 - 1)
        start = b"\x89HDF\r\n\x1a\n" + bytes((0, 0, 0, 0, 0, 8, 8, 0)) + struct.pack("<HHI", 4, 16, 0) + sizes
        path = folder / "hand.h5"
        path.write_bytes(start + struct.pack("<QQ24x", 0, 96) + struct.pack("<BxHII4x", 1, 1, 1, len(body)) + body)
        return path, {}

    return make


def hard_link(name, address=96):
    """A message that links to an object, to the root group unless said otherwise."""
    return 6, struct.pack("<BBH", 1, 1, len(name)) + name + struct.pack("<Q", address), 0


READOUT = (
    struct.pack("<BxHHH", 1, 8, 8, 8) + b"readout\0" + struct.pack("<BBBBI", 0x13, 0, 0, 0, 4) + b"\1".ljust(8, b"\0")
)
ATTACKS |= {
    "two_links_of_one_name": by_hand(hard_link(b"a"), hard_link(b"a")),
    "two_attributes_of_one_name": by_hand(hard_link(b"a"), *((12, READOUT + one, 0) for one in (b"last", b"max\0"))),
    "links_with_odd_names": by_hand(*map(hard_link, (b"a/b", b"c\0d", b"", b".", b"..", b"\xff\xfe"))),
    "four_thousand_links_to_itself": by_hand(*(hard_link(b"w%d" % k) for k in range(4000))),
    "a_message_that_nobody_may_leave_out": by_hand(hard_link(b"a"), (99, bytes(8), 128)),
    "a_header_that_goes_on_in_itself": by_hand((16, struct.pack("<QQ", 112, 24), 0)),
    "a_header_that_goes_on_three_thousand_times": by_hand(
        *((16, struct.pack("<QQ", 112 + 24 * k, 24 * 3000 - 24 * k), 0) for k in range(1, 3000))
    ),
    "a_table_of_names_that_is_its_own_header": by_hand((17, struct.pack("<QQ", 96, 96), 0)),
}


@attack
def chunks_that_share_their_bytes(folder):
    path, name = folder / "model.h5", "weight_ih_l0"
    with h5py.File(path, "w") as file:
        file.create_dataset(name, data=np.ones((8, 64), "f4"), chunks=(1, 64))
        file["weight_hh_l0"] = np.ones((8, 2), "f4")
        first, second = (file[name].id.get_chunk_info(k).byte_offset.to_bytes(8, "little") for k in (0, 1))
    path.write_bytes(path.read_bytes().replace(second, first))
    return path, {"readout": "last"}


@attack
def an_array_with_two_layouts(folder):
    path = folder / "model.h5"
    with h5py.File(path, "w") as file:
        file["weight_ih_l0"], file["weight_hh_l0"] = np.ones((8, 3), "f4"), np.ones((8, 2), "f4")
    content = path.read_bytes()
    fill = content.index(
        struct.pack("<HH", 5, 8), content.index(b"weight_ih_l0")
    )  # a message of 8 bytes: becomes a shape
    path.write_bytes(content[:fill] + b"\1" + content[fill + 1 :])
    return path, {"readout": "last"}


# ------------------------------------------------------------------------------------------------------------ archives


def keras(folder, config=None, weights=None, **settings):
    """A `.keras` file with its configuration or its weights replaced."""
    path = folder / "model.keras"
    with zipfile.ZipFile(FIXTURES / "keras3" / "stack.keras") as old, zipfile.ZipFile(path, "w", **settings) as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "config.json" and config is not None:
                content = config(json.loads(content))
            if name == "model.weights.h5" and weights is not None:
                content = weights
            new.writestr(name, content)
    return path, {}


def many_layers(config, count):
    lstm = next(layer for layer in config["config"]["layers"] if layer["class_name"] == "LSTM")
    small = {key: lstm["config"][key] for key in ("units", "activation", "recurrent_activation")}
    one = {"class_name": "LSTM", "config": {**small, "return_sequences": True}}
    first = config["config"]["layers"][0]
    return json.dumps({"class_name": "Sequential", "config": {"layers": [first] + [one] * count}}).encode()


def hard_linked(count):
    stream = io.BytesIO()
    with h5py.File(stream, "w", libver="latest") as file:
        group = file.create_group("layers/lstm/cell/vars")
        for k, shape in enumerate([(4, 16), (4, 16), (16,)]):
            group[str(k)] = np.zeros(shape, "f4")
        for k in range(1, count):
            file[f"layers/lstm_{k}"] = file["layers/lstm"]
    return stream.getvalue()


@attack
def ten_thousand_activations(folder):
    def config(config):
        one = {"class_name": "Activation", "config": {"activation": "relu"}}
        layers = [{**one, "config": {**one["config"], "name": f"a{k}"}} for k in range(10_000)]
        config["config"]["layers"][-1:-1] = layers
        return json.dumps(config).encode()

    return keras(folder, config)


@attack
def ninety_thousand_hard_linked_layers(folder):
    return keras(folder, lambda config: many_layers(config, 90_000), hard_linked(100))


@attack
def twelve_thousand_hard_linked_layers(folder):
    return keras(folder, lambda config: many_layers(config, 900), hard_linked(12_000))


def deflated(content, zeros):
    """A stream of `content` and so many MiB of zeros, made of one block that is repeated."""
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    head = pack.compress(content) + pack.flush(zlib.Z_FULL_FLUSH)
    block = pack.compress(bytes(2**20)) + pack.flush(zlib.Z_FULL_FLUSH)
    return head + block * zeros + b"\x03\x00"


def zipped(path, members):
    """A zip archive by hand: name to content, or to content and MiB of zeros behind it, with a wrong checksum."""
    body, directory = [], []
    at = 0
    for name, content in members.items():
        content, zeros = content if isinstance(content, tuple) else (content, 0)
        data = deflated(content, zeros) if zeros else content
        sizes = (0 if zeros else zlib.crc32(content), len(data), len(content) + zeros * 2**20, len(name), 0)
        what = struct.pack("<HHHHH", 20, 0, 8 if zeros else 0, 0, 33) + struct.pack("<IIIHH", *sizes)
        body.append(b"PK\x03\x04" + what + name.encode() + data)
        directory.append(b"PK\x01\x02\x14\x00" + what + struct.pack("<HHHII", 0, 0, 0, 0, at) + name.encode())
        at += len(body[-1])
    listed = b"".join(directory)
    count = min(len(members), 2**16 - 1)
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, count, count, len(listed), at, 0)
    path.write_bytes(b"".join(body) + listed + end)
    return path


@attack
def an_archive_that_unpacks_to_a_gigabyte(folder):
    """The file inside is zeros behind a valid one: 1 GiB in 1 MB."""
    with zipfile.ZipFile(FIXTURES / "keras3" / "stack.keras") as old:
        members = {name: old.read(name) for name in old.namelist()}
    members["model.weights.h5"] = members["model.weights.h5"], 2**10
    return zipped(folder / "model.keras", members), {}


@attack
def a_header_of_two_gigabytes(folder):
    member = b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31 - 1), 1024
    return zipped(folder / "arrays.npz", {"weight_ih_l0.npy": member}), {"readout": "last"}


def header(*shape):
    """The start of a `.npy` file."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return stream.getvalue()


@attack
def an_array_that_unpacks_to_four_gigabytes(folder):
    member = header(2**12, 2**18), 4095
    return zipped(folder / "arrays.npz", {"weight_ih_l0.npy": member}), {"readout": "last"}


@attack
def an_array_that_unpacks_to_more_than_it_declares(folder):
    members = {"weight_ih_l0.npy": (header(8, 3), 1024), "weight_hh_l0.npy": header(8, 2) + bytes(64)}
    return zipped(folder / "arrays.npz", members), {"readout": "last"}


@attack
def a_storage_that_unpacks_to_a_gigabyte(folder):
    content = network({"weight_ih_l0": tensor(b"0", 2**28, 0, (8, 3), (3, 1))})
    members = {"archive/data.pkl": content, "archive/data/1": bytes(64), "archive/data/0": (b"", 1024)}
    return zipped(folder / "model.pt", members), {}


@attack
def arrays_that_share_their_bytes(folder):
    """Among the numbers of one array lies the other with its header, a "quoted overlap"."""

    def parts(name, content):
        """Of an archive of one member: all before the list of members, and its line in that list."""
        whole = zipped(folder / "arrays.npz", {name: content}).read_bytes()
        at, end = whole.index(b"PK\x01\x02"), whole.index(b"PK\x05\x06")
        return whole[:at], bytearray(whole[at:end])

    inner, second = parts("weight_hh_l0.npy", header(8, 2) + bytes(64))
    outer, first = parts("weight_ih_l0.npy", header(8, 12) + inner.ljust(384, b"\0"))
    second[42:46] = struct.pack("<I", outer.index(inner))  # where it begins
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 2, 2, len(first + second), len(outer), 0)
    (folder / "arrays.npz").write_bytes(outer + first + second + end)
    return folder / "arrays.npz", {"readout": "last"}


@attack
def sixty_thousand_members(folder):
    return many_members(folder, 60_000)


@attack
def twenty_thousand_members(folder):
    return many_members(folder, 20_000)


def many_members(folder, count):
    members = {f"{k}.weight_ih_l0.npy": header(1) + b"1234" for k in range(count)}
    return zipped(folder / "arrays.npz", members), {"readout": "last"}


# --------------------------------------------------------------------------------------------------- JSON, safetensors


def safetensors(folder, text, data=b""):
    path = folder / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path, {"readout": "last"}


@attack
def integers_of_a_million_digits(folder):
    return safetensors(
        folder, b'{"weight_ih_l0": {"dtype": "F32", "shape": [%s], "data_offsets": [0, 4]}}' % (b"9" * 10**6)
    )


@attack
def floats_of_a_million_digits(folder):
    return safetensors(folder, b'{"weight_ih_l0": {"dtype": "F32", "shape": [0.%s]}}' % (b"9" * 10**6))


@attack
def a_shape_of_two_thousand_large_integers(folder):
    shape = b", ".join([b"9" * 390] * 30_000)
    return safetensors(folder, b'{"weight_ih_l0": {"dtype": "F32", "shape": [%s], "data_offsets": [0, 4]}}' % shape)


@attack
def sixteen_megabytes_of_empty_lists(folder):
    return safetensors(folder, b'{"weight_ih_l0": [%s]}' % b",".join([b"[]"] * 5_000_000))


@attack
def overlapping_arrays(folder):
    item = {"dtype": "F32", "shape": [8, 3], "data_offsets": [0, 96]}
    other = {"dtype": "F32", "shape": [8, 2], "data_offsets": [32, 96]}
    return safetensors(folder, json.dumps({"weight_ih_l0": item, "weight_hh_l0": other}).encode(), bytes(96))


@attack
def a_key_twice_in_json(folder):
    item = json.dumps({"dtype": "F32", "shape": [8, 3], "data_offsets": [0, 96]})
    return safetensors(folder, f'{{"weight_ih_l0": {item}, "weight_ih_l0": {item}}}'.encode(), bytes(96))


@attack
def a_key_twice_in_a_configuration(folder):
    return keras(folder, lambda config: json.dumps(config).replace('"units"', '"units": 4, "units"', 1).encode())


# -------------------------------------------------------------------------------------------- what is not a file at all


@attack
def a_pipe_as_configuration(folder):
    os.mkfifo(folder / "pipe.json")
    return FIXTURES / "keras3" / "maximum.weights.h5", {"config": str(folder / "pipe.json")}


@attack
def a_device_as_configuration(folder):
    return FIXTURES / "keras3" / "maximum.weights.h5", {"config": "/dev/zero"}


@attack
def links_in_a_folder(folder):
    path, load = reference(folder, (FIXTURES / "reference" / "reference4" / "model").read_bytes())
    (path / "vocab").rename(folder / "words")
    (path / "vocab").symlink_to(folder / "words")
    return path, load


# ------------------------------------------------------------------------------------------- networks of many modules


def linears(count, shape=(2, 4)):
    """The pickles of Linear modules that share a storage."""
    return {f"m{k}.weight": tensor(b"0", 24, 0, shape, (shape[1], 1)) for k in range(count)}


@attack
def four_thousand_gates(folder):
    return saved(folder, state(**linears(4000), **{"other.weight": tensor(b"0", 24, 0, (3, 4), (4, 1))}), **STORAGES)


@attack
def eight_modules_that_fit_in_every_order(folder):
    square = {f"lstm.{name}": made for name, made in NETWORK.items()} | linears(7, (2, 2))
    return saved(folder, state(**square), **STORAGES)


@attack
def four_thousand_modules_in_no_order(folder):
    return saved(folder, state(**NETWORK, **linears(4000)), **STORAGES)


@attack
def a_remark_that_names_a_hundred_thousand_layers(folder):
    path = folder / "model.npz"
    arrays = {f"m{k}.weight": np.zeros((2, 2), "f4") for k in range(200)} | {"weight_ih_l0": np.zeros((8, 2), "f4")}
    np.savez(path, layers=json.dumps([f"m{k % 200}" for k in range(100_000)]), **arrays)
    return path, {}


@attack
def a_sequence_of_four_thousand_parts(folder):
    """An nn.Sequential of parts, inside one of one, and so on."""
    linear = b"ctorch.nn.modules.linear\nLinear\n)\x81}(U\x08_modules}U\x0b_parameters}U\x06weight"
    linear += tensor(b"1", 16, 0, (2, 2), (2, 1)) + b"sU\x08_buffers}ub"
    relu = b"ctorch.nn.modules.activation\nReLU\n)\x81}(U\x08_modules}U\x0b_parameters}U\x08_buffers}ub"
    lstm = b"ctorch.nn.modules.rnn\nLSTM\n)\x81}(U\x08_modules}U\x0b_parameters"
    lstm += network()[2:-1] + b"U\x08_buffers}ub"
    thing = relu.replace(b"torch.nn.modules.activation\nReLU", b"mine\nThing")
    parts = [(b"lstm", lstm), *((b"%d" % k, linear if k % 2 else relu) for k in range(4000)), (b"thing", thing)]
    content = module(parts)
    for _ in range(20):
        content = module([(b"a", content)])
    return saved(folder, b"\x80\x02" + content.replace(b"cnet\nNet\n", b"ctorch.nn\nSequential\n") + b".", **STORAGES)


@attack
def a_scripted_module_that_forms_a_fan(folder):
    content = b"\x80\x02"
    for k in range(30):
        content += b"c__torch__\nM\n)\x81}(" + (b"U\x01ah%cU\x01bh%c" % (k - 1, k - 1) if k else b"") + b"ubq%c" % k
    return saved(folder, content + b".")


# ---------------------------------------------------------------------------------------------- runs of neuralhydrology


def run(folder, text, name="config.yml"):
    """A run of neuralhydrology with a file of our own."""
    path = folder / "run"
    shutil.copytree(FIXTURES / "neuralhydrology" / "lstm", path)
    (path / name).write_text(text)
    return path, {}


@attack
def yaml_of_half_a_million_entries(folder):
    return run(folder, "a: [" + "1," * 260_000 + "]")


@attack
def yaml_of_many_pairs(folder):
    return run(folder, "".join(f"k{k}: {k}\n" for k in range(30_000)), "train_data/train_data_scaler.yml")


@attack
def yaml_of_one_long_string(folder):
    return run(folder, "a: " + "x " * 260_000)


@attack
def yaml_of_aliases(folder):
    lines = ["a0: &a0 [x, x]"] + [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 30)]
    return run(folder, "\n".join(lines))


@attack
def yaml_that_is_deep(folder):
    return run(folder, "[" * 500_000)


@attack
def a_run_whose_arrays_are_zeros_without_end(folder):
    path, load = run(folder, (FIXTURES / "neuralhydrology" / "lstm" / "config.yml").read_text())
    (path / "model_epoch999.pt").symlink_to("/dev/zero")
    return path, load
