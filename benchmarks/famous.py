"""Networks that many people know by name: do the scores agree with other programs, and what do explanations find?

    python -m benchmarks.famous FOLDER

FOLDER holds files that their authors publish, under the names in `NETWORKS`; docs/famous.md lists their sources.
Files that are missing are left out. Scores are compared with onnxruntime where it is installed, otherwise with a plain
restatement in NumPy that does not import lrpnumpy. Inputs are made here: seeded, no recordings.
"""

from __future__ import annotations

import argparse
import json
import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

import lrpnumpy as lrp

METHODS = ("integrated-gradients", "deeplift", "lrp-all", "lrp-half", "gradient-x-input")  # in this order
RATE = 16000  # of sound, per second
FRAMES = 10  # of 32 ms
SILERO = (
    "pad(0, 64, reflect)", "stft_conv(stride=128)", "magnitude", "conv1(padding=1)", "relu",
    "conv2(stride=2, padding=1)", "relu", "conv3(stride=2, padding=1)", "relu", "conv4(padding=1)", "relu",
    "lstm_cell", "relu", "final_conv", "sigmoid",
)  # fmt: skip
TEXTGEN = ("embedding", "rnn_1", "rnn_2", "concat(embedding, rnn_1, rnn_2)", "attention", "output")
G2P = ("enc_emb", "enc", "dec_emb", "dec(start=enc)", "fc")
LETTERS = ("<pad>", "<unk>", "</s>", *"abcdefghijklmnopqrstuvwxyz")
VOWELS = ["AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW"]
SOUNDS = [
    "B",
    "CH",
    "D",
    "DH",
    "F",
    "G",
    "HH",
    "JH",
    "K",
    "L",
    "M",
    "N",
    "NG",
    "P",
    "R",
    "S",
    "SH",
    "T",
    "TH",
    "V",
    "W",
    "Y",
    "Z",
    "ZH",
]
PHONEMES = ("<pad>", "<unk>", "<s>", "</s>", *sorted([*(v + str(k) for v in VOWELS for k in range(3)), *SOUNDS, "UW"]))
ENGINE = ("setting1", "setting2", "setting3", "cycle", *(f"s{k}" for k in range(1, 22)))
RISING, FALLING = (2, 3, 4, 8, 9, 11, 13, 14, 15, 17), (7, 12, 20, 21)  # sensors of an engine that wears out
Finding = tuple[str, str]  # a sentence, and the verdict of the experiments


class Network(NamedTuple):
    """One file: what it is compared with, and the two functions that do it."""

    file: str
    compared: Callable[[Path], tuple[str, np.ndarray, np.ndarray]]  # with what, its scores, ours
    finding: Callable[[Path], Finding]


def main() -> None:
    """Print one row for each network of the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="networks whose file begins with this")
    options = parser.parse_args()
    folder = options.folder
    warnings.simplefilter("ignore", lrp.AssumptionWarning)
    print("| file | compared with | largest score | largest difference | finding | evidence |")
    print("| --- | --- | --- | --- | --- | --- |")
    for network in NETWORKS:
        if not network.file.startswith(options.only):
            continue
        path = folder / network.file
        if not path.exists():
            print(f"| {network.file} | not in this folder | | | | |")
            continue
        program, theirs, ours = network.compared(path)
        text, evidence = network.finding(path)
        difference = abs(theirs - ours).max()
        print(f"| {network.file} | {program} | {abs(theirs).max():.3g} | {difference:.1e} | {text} | {evidence} |")


def explained(model: lrp.Model, x: Any, reference: Any = None, **more: Any) -> lrp.Explanation:
    """An explanation that its evidence supports: by the first of some methods that passes, or else by the first."""
    first, methods = None, METHODS
    if reference is not None:
        methods, more = METHODS[:2], {**more, "reference": reference}  # others compare with nothing
    for method in methods:
        found = lrp.explain(model, x, method, **more)
        first = first or found
        if found.evidence().verdict == "passes":
            return found
    assert first is not None
    return first


def verdict(found: lrp.Explanation) -> str:
    """What the experiments say, and of which method."""
    return f"{found.method} {found.evidence().verdict}"


# ------------------------------------------------------------------------------------------------- plain restatements


def sigmoid(z: Any) -> Any:
    """1 / (1 + exp(-z))."""
    return 1 / (1 + np.exp(-z))


def hard_sigmoid(z: Any) -> Any:
    """That of Keras 2."""
    return np.clip(0.2 * z + 0.5, 0, 1)


def lstm(x: np.ndarray, U: np.ndarray, W: np.ndarray, b: np.ndarray, gate: Any = sigmoid) -> np.ndarray:
    """States (T, H) of an LSTM with gates i, f, g, o from x (T, D), U (D, 4 H) and W (H, 4 H)."""
    h = c = np.zeros(len(W))
    out = []
    for row in x:
        i, f, g, o = np.split(row @ U + h @ W + b, 4)
        c = gate(f) * c + gate(i) * np.tanh(g)
        h = gate(o) * np.tanh(c)
        out.append(h)
    return np.array(out)


def torch_gru(x: np.ndarray, h: np.ndarray, U: np.ndarray, W: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """States of PyTorch's GRU, gates r, z, n."""
    out = []
    for row in x:
        (r, z, n), (r_h, z_h, n_h) = np.split(U @ row + b, 3), np.split(W @ h + c, 3)
        r, z = sigmoid(r + r_h), sigmoid(z + z_h)
        h = (1 - z) * np.tanh(n + r * n_h) + z * h
        out.append(h)
    return np.array(out)


def keras_gru(x: np.ndarray, U: np.ndarray, W: np.ndarray, b: np.ndarray) -> np.ndarray:
    """States of the GRU of Keras 2, gates z, r, h, the reset gate before the product."""
    H = len(W)
    h = np.zeros(H)
    out = []
    for row in x:
        z_x, r_x, n_x = np.split(row @ U + b, 3)
        z, r = sigmoid(z_x + h @ W[:, :H]), sigmoid(r_x + h @ W[:, H : 2 * H])
        h = z * h + (1 - z) * np.tanh(n_x + (r * h) @ W[:, 2 * H :])
        out.append(h)
    return np.array(out)


def keras_arrays(path: Path, name: str) -> list[np.ndarray]:
    """The arrays of one layer of a Keras 2 file, in their order."""
    with h5py.File(path) as file:
        group = file["model_weights"][name] if "model_weights" in file else file[name]
        return [np.array(group[weight], float) for weight in group.attrs["weight_names"]]


def run_onnx(path: Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    """What onnxruntime computes; None where it is not installed."""
    try:
        import onnxruntime
    except ImportError:
        return None
    return list(onnxruntime.InferenceSession(str(path)).run(None, feeds))


def without_onnx(ours: np.ndarray) -> tuple[str, np.ndarray, np.ndarray]:
    """Nothing to compare with."""
    return "onnxruntime is not installed", ours, ours


# -------------------------------------------------------------------------------------------------------------- Silero


def voice(samples: int) -> np.ndarray:
    """A voice that babbles: the harmonics of a gliding pitch, louder near the formants of a, i, u, e, five a second."""
    t = np.arange(samples) / RATE
    pitch = 120 * (1 + 0.15 * np.sin(2 * np.pi * 1.5 * t))
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    formants = np.array([(730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480)])
    here = formants[np.floor(5 * t).astype(int) % 4]  # (samples, 3)
    sound = np.zeros(samples)
    for k in range(1, 50):
        near = 1 / (1 + ((k * pitch[:, None] - here) / (90, 110, 170)) ** 2)
        sound += near @ (1, 0.6, 0.3) / np.sqrt(k) * np.sin(k * phase)
    sound *= 0.25 + 0.75 * np.sin(np.pi * (5 * t % 1)) ** 0.5
    noise = np.random.default_rng(0).normal(size=samples)
    return (0.3 * sound / abs(sound).max() + 0.002 * noise).astype(np.float32)


def silero(path: Path, **more: Any) -> lrp.Model:
    """The network for 16 kHz; with `which="stateN"` its next state."""
    return lrp.load(path, constants={"sr": RATE}, **more)


def frames(sound: np.ndarray) -> list[np.ndarray]:
    """512 samples each, behind the last 64 of the frame before."""
    return [sound[k : k + 576, None] for k in range(0, len(sound) - 575, 512)]


def compare_silero(path: Path) -> tuple[str, np.ndarray, np.ndarray]:
    """Ten frames of a voice, one after the other, each with the state that the one before it left."""
    model, state = silero(path), np.zeros((2, 1, 128), np.float32)
    theirs, ours = [], []
    for frame in frames(voice(64 + FRAMES * 512)):
        ours.append(lrp.predict(model, {"input": frame, "state": state[:, 0]}))
        found = run_onnx(path, {"input": frame.T, "state": state, "sr": np.array(RATE)})
        if found is None:
            return without_onnx(np.array(ours))
        theirs.append(found[0][0])
        state = found[1]
    return "onnxruntime", np.array(theirs), sigmoid(np.array(ours))


def compare_silero_frames(path: Path) -> tuple[str, np.ndarray, np.ndarray]:
    """Ten frames of a voice at once."""
    x, zeros = np.stack(frames(voice(64 + FRAMES * 512)))[:, :, 0], np.zeros((1, 1, 128), np.float32)
    ours = sigmoid(lrp.predict(lrp.load(path), x))[:, 0]
    found = run_onnx(path, {"input": x, "h": zeros, "c": zeros})
    return without_onnx(ours) if found is None else ("onnxruntime", found[0], ours)


def find_in_silero_frames(path: Path) -> Finding:
    """Which of ten frames of a voice the score of the last one comes from."""
    found = explained(lrp.load(path), np.stack(frames(voice(64 + FRAMES * 512)))[:, :, 0])
    before, last = found.relevance[:-1].sum(), found.relevance[-1]
    text = (
        f"score of the last of {FRAMES} frames {found.score:+.1f}: that frame {last:+.1f}, all before it {before:+.1f}"
    )
    return text, verdict(found)


def safetensors(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file in float32."""
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    found = {}
    for name, one in json.loads(content[8 : 8 + length]).items():
        if name != "__metadata__":
            start, stop = (8 + length + k for k in one["data_offsets"])
            found[name] = np.frombuffer(content[start:stop], "<f4").reshape(one["shape"]).astype(float)
    return found


def convolved(x: np.ndarray, K: np.ndarray, b: Any, stride: int, pad: int) -> np.ndarray:
    """x (T, in) by K (out, in, width)."""
    x = np.pad(x, ((pad, pad), (0, 0)))
    starts = range(0, len(x) - K.shape[2] + 1, stride)
    return np.array([np.einsum("oiw,wi->o", K, x[k : k + K.shape[2]]) + b for k in starts])


def silero_arrays(path: Path) -> lrp.Model:
    """The network of the arrays alone."""
    return lrp.load(path, layers=list(SILERO), readout="last")


def compare_silero_arrays(path: Path) -> tuple[str, np.ndarray, np.ndarray]:
    """One frame at a time, each from a state of zeros."""
    a, model = safetensors(path), silero_arrays(path)
    theirs, ours = [], []
    for frame in frames(voice(64 + FRAMES * 512)):
        x = np.pad(frame[:, 0].astype(float), (0, 64), mode="reflect")[:, None]
        parts = convolved(x, a["stft_conv.weight"], 0, 128, 0)
        h = np.hypot(parts[:, :129], parts[:, 129:])
        for k, stride in ((1, 1), (2, 2), (3, 2), (4, 1)):
            h = np.maximum(convolved(h, a[f"conv{k}.weight"], a[f"conv{k}.bias"], stride, 1), 0)
        bias = a["lstm_cell.bias_ih"] + a["lstm_cell.bias_hh"]
        last = lstm(h, a["lstm_cell.weight_ih"].T, a["lstm_cell.weight_hh"].T, bias)[-1]
        theirs.append(a["final_conv.weight"][:, :, 0] @ np.maximum(last, 0) + a["final_conv.bias"])
        ours.append(lrp.predict(model, frame))
    return "NumPy", sigmoid(np.array(theirs)), sigmoid(np.array(ours))


BANDS = ((0, 300), (300, 1000), (1000, 2000), (2000, 4000), (4000, 8001))
HERTZ = np.arange(129) * RATE / 256  # of the 129 magnitudes


def from_spectrum(model: lrp.Model) -> tuple[lrp.Model, str]:
    """The network behind its magnitudes, which become the input, and the name of the node that computes them."""
    root = next(node.name for node in model.nodes if getattr(node.layer, "activation", "") == "sqrt")
    behind = [node for node in model.nodes if root in node.inputs]
    known = {node.name for node in behind}
    for node in model.nodes:
        if known.intersection(one.partition(":")[0] for one in node.inputs):
            behind += [node] if node.name not in known else []
            known.add(node.name)
    nodes = [node._replace(inputs=tuple("x" if one == root else one for one in node.inputs)) for node in behind]
    return lrp.Model(nodes, inputs={"x": lrp.Input(129)}, result=model.result, output=model.output), root


def spectrum(x: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Magnitudes (4, 129) of a frame, by the network's own window and frequencies."""
    parts = convolved(np.pad(x[:, 0], (0, 64), mode="reflect")[:, None], basis, 0, 128, 0)
    return np.hypot(parts[:, :129], parts[:, 129:]).astype(np.float32)


def bands_of(model: lrp.Model, x: np.ndarray) -> Finding:
    """Which frequencies support a voice, compared with silence; and what changes when a band is silenced."""
    basis = next(node.layer.K for node in model.nodes if isinstance(node.layer, lrp.layers.Conv1D)).transpose(0, 2, 1)
    behind, _ = from_spectrum(model)
    heard = spectrum(x, basis)
    found = explained(behind, heard, target=0)
    score = float(lrp.predict(behind, heard)[0])
    parts = []
    for low, high in BANDS:
        there = (low <= HERTZ) & (high > HERTZ)
        claim = found.feature_relevance[:, there].sum()
        change = score - float(lrp.predict(behind, np.where(there, 0, heard))[0])
        parts.append(f"{low} to {high // 100 * 100} Hz {claim:+.1f} ({change:+.1f})")
    text = f"score {score:+.1f}; by frequency, and what silencing it changes: {', '.join(parts)}"
    return text, verdict(found)


def find_in_silero(path: Path) -> Finding:
    """The first frame of a voice."""
    return bands_of(lrp.load(path, constants={"sr": RATE, "state": 0}), frames(voice(64 + 512))[0])


def find_in_silero_arrays(path: Path) -> Finding:
    """One frame of a voice, with nothing before it."""
    return bands_of(silero_arrays(path), frames(voice(64 + 512))[0])


# ---------------------------------------------------------------------------------------------------------------- DTLN


def dtln_feeds(path: Path) -> tuple[dict[str, np.ndarray], lrp.Model]:
    """A frame of a voice in noise, or its magnitudes, and the states after nothing."""
    sound = (voice(512) + 0.05 * np.random.default_rng(0).normal(size=512)).astype(np.float32)
    model = lrp.load(path)
    names = list(model.inputs)
    if model.inputs[names[0]].size == 257:
        sound = abs(np.fft.rfft(sound)).astype(np.float32)
    states = np.random.default_rng(1).normal(0, 0.3, (1, 2, 128, 2)).astype(np.float32)
    return {names[0]: sound[None, None], names[1]: states}, model


def given_to_dtln(feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same as our model takes it: steps of features."""
    (first, x), (second, states) = feeds.items()
    return {first: x[0], second: states.reshape(2, 256)}


def compare_dtln(path: Path) -> tuple[str, np.ndarray, np.ndarray]:
    """One frame, with states of all kinds."""
    feeds, model = dtln_feeds(path)
    ours = lrp.predict(model, given_to_dtln(feeds))
    ours = sigmoid(ours) if model.output == "sigmoid" else ours
    found = run_onnx(path, feeds)
    return without_onnx(ours) if found is None else ("onnxruntime", found[0][0], ours)


def find_in_dtln(path: Path) -> Finding:
    """What the gain of one frequency, or one sample, is made of."""
    feeds, model = dtln_feeds(path)
    given = given_to_dtln(feeds)
    name, states = given
    target = 24 if model.output == "sigmoid" else 100
    found = explained(model, given, target=target, step=0)
    near = abs(found.of_input(name).feature_relevance[0])
    share = near.sum() / (near.sum() + abs(found.of_input(states).feature_relevance).sum())
    what = "750 Hz" if model.output == "sigmoid" else f"sample {target}"
    where = np.argsort(near)[-3:][::-1]
    places = ", ".join(f"{k * RATE / 512:.0f} Hz" if model.output == "sigmoid" else str(k) for k in where)
    return f"{what}: {share:.0%} of all relevance is on this frame, most on {places}", verdict(found)


# ------------------------------------------------------------------------------------------------------------- RNNoise


def rnnoise_input() -> np.ndarray:
    """Features of 30 frames, of about the size that RNNoise computes them in."""
    rng = np.random.default_rng(0)
    x = rng.normal(0, 0.5, (30, 42)).cumsum(axis=0) / 3
    x[:, 0] += 2  # loudness
    x[:, 34:40] += 0.5  # a pitch
    return x.astype(np.float32)


def compare_rnnoise(path: Path) -> tuple[str, np.ndarray, np.ndarray]:
    """Probability of speech at each frame."""
    x = rnnoise_input()
    V, d = keras_arrays(path, "input_dense")
    dense = np.tanh(x @ V + d)
    out, bias = keras_arrays(path, "vad_output")
    theirs = keras_gru(dense, *keras_arrays(path, "vad_gru")) @ out + bias
    return "NumPy", sigmoid(theirs), sigmoid(lrp.predict(lrp.load(path, which="vad_output"), x))


def find_in_rnnoise(path: Path) -> Finding:
    """Which kind of feature indicates speech."""
    x = rnnoise_input()
    found = explained(lrp.load(path, which="vad_output"), x, target=0, step=29)
    sizes = abs(found.feature_relevance.sum(axis=0))
    parts = {"spectrum": sizes[:22], "its changes": sizes[22:34], "pitch": sizes[34:41], "variability": sizes[41:]}
    shares = {name: part.sum() / sizes.sum() for name, part in parts.items()}
    recent = abs(found.relevance[-10:]).sum() / abs(found.relevance).sum()
    listed = ", ".join(f"{name} {share:.0%}" for name, share in sorted(shares.items(), key=lambda one: -one[1]))
    return f"speech: {listed}; {recent:.0%} from the last 100 ms", verdict(found)


# ---------------------------------------------------------------------------------------------------------- textgenrnn


def textgen(path: Path) -> lrp.Model:
    """The network; with its characters where their file is beside it."""
    beside = path.with_name("textgenrnn_vocab.json")
    more: dict[str, Any] = {}
    if beside.exists():
        vocabulary = json.loads(beside.read_text())
        more = {"vocabulary": {"<pad>": 0, **vocabulary}, "tokenizer": list}
    return lrp.load(path, layers=list(TEXTGEN), output="softmax", **more)


def characters(path: Path, text: str) -> list[int]:
    """The ids of the characters of a text, or some ids where the vocabulary is not there."""
    beside = path.with_name("textgenrnn_vocab.json")
    known = json.loads(beside.read_text()) if beside.exists() else {}
    return [known.get(one, 1 + k % 60) for k, one in enumerate(text)]


def cudnn(path: Path, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The arrays of a CuDNNLSTM as those of an LSTM: its matrices are stored gate by gate, transposed."""
    kernel, recurrent, bias = keras_arrays(path, name)
    H = len(recurrent)
    U = np.hstack([part.reshape(H, -1).T for part in np.split(kernel, 4, axis=1)])
    W = np.hstack([part.T for part in np.split(recurrent, 4, axis=1)])
    return U, W, bias[: 4 * H] + bias[4 * H :]


def compare_textgen(path: Path) -> tuple[str, np.ndarray, np.ndarray]:
    """The next character after a few."""
    ids = characters(path, "the president of the united ")
    (E,) = keras_arrays(path, "embedding")
    x = E[ids]
    first = lstm(x, *cudnn(path, "rnn_1"))
    joined = np.hstack([x, first, lstm(first, *cudnn(path, "rnn_2"))])
    (W,) = keras_arrays(path, "attention")
    weights = np.exp(joined @ W - (joined @ W).max())
    V, d = keras_arrays(path, "output")
    theirs = (weights * joined).sum(axis=0) / weights.sum() @ V + d
    return "NumPy", theirs, lrp.predict(textgen(path), ids)


def find_in_textgen(path: Path) -> Finding:
    """Which characters decide the next one."""
    text = "the president of the united "
    model = textgen(path)
    found = explained(model, characters(path, text))
    words = model.embedding.vocabulary if model.embedding is not None else None
    next_one = words[found.target] if words else found.target
    by_character = found.relevance
    order = np.argsort(by_character)[::-1][:3]
    listed = ", ".join(f"{text[k]!r} at {k} ({by_character[k]:+.1f})" for k in order)
    return f"after {text!r} comes {next_one!r}, because of {listed}", verdict(found)


# -------------------------------------------------------------------------------------------------------------- g2p_en


def g2p(path: Path) -> lrp.Model:
    """Letters and the sounds so far to the next sound, at each sound."""
    words = {"enc_emb": list(LETTERS), "dec_emb": list(PHONEMES)}
    return lrp.load(path, layers=list(G2P), readout="every", vocabulary=words)


def spoken(path: Path, word: str) -> tuple[list[int], list[int], np.ndarray]:
    """Ids of the letters, of the sounds that are heard until the end, and the scores at each sound, by NumPy."""
    a = {name: array.astype(float) for name, array in np.load(path).items()}
    letters = [LETTERS.index(one) for one in (*word, "</s>")]
    arrays = [[a[f"{side}_{name}"] for name in ("w_ih", "w_hh", "b_ih", "b_hh")] for side in ("enc", "dec")]
    h = torch_gru(a["enc_emb"][letters], np.zeros(256), *arrays[0])[-1]
    sounds, scores = [PHONEMES.index("<s>")], []
    for _ in range(20):
        (h,) = torch_gru(a["dec_emb"][sounds[-1:]], h, *arrays[1])
        scores.append(a["fc_w"] @ h + a["fc_b"])
        sounds.append(int(np.argmax(scores[-1])))
        if PHONEMES[sounds[-1]] == "</s>":
            break
    return letters, sounds[:-1], np.array(scores)


def compare_g2p(path: Path) -> tuple[str, np.ndarray, np.ndarray]:
    """Every sound of a word."""
    letters, sounds, theirs = spoken(path, "nation")
    return "NumPy", theirs, lrp.predict(g2p(path), {"enc_emb": letters, "dec_emb": sounds})


def find_in_g2p(path: Path) -> Finding:
    """Which letters make the SH in "nation"."""
    letters, sounds, scores = spoken(path, "nation")
    heard = [PHONEMES[k] for k in scores.argmax(axis=1)]
    step = heard.index("SH") if "SH" in heard else 0
    given = {"enc_emb": letters, "dec_emb": sounds}
    found = explained(g2p(path), given, target=PHONEMES.index(heard[step]), step=step)
    by_letter = found.of_input("enc_emb").relevance
    order = np.argsort(by_letter)[::-1][:3]
    listed = ", ".join(f"{'nation.'[k]!r} ({by_letter[k]:+.1f})" for k in order)
    return f"'nation' is {' '.join(heard[:-1])}; {heard[step]} because of {listed}", verdict(found)


# ------------------------------------------------------------------------------------------------------------ turbofan


def engine() -> np.ndarray:
    """Fifty cycles of an engine that wears out, scaled to 0 … 1 as in training; sensors that stay the same are 0."""
    rng = np.random.default_rng(0)
    wear = np.linspace(0, 1, 50) ** 2
    x = np.zeros((50, 25))
    x[:, :2] = rng.uniform(0, 1, (50, 2))
    x[:, 3] = np.linspace(0.3, 0.44, 50)
    for k in RISING:
        x[:, 3 + k] = 0.35 + 0.25 * wear
    for k in FALLING:
        x[:, 3 + k] = 0.65 - 0.25 * wear
    varies = [3 + k for k in (*RISING, *FALLING)]
    x[:, varies] += rng.normal(0, 0.03, (50, len(varies)))
    return x.astype(np.float32)


def compare_turbofan(path: Path) -> tuple[str, np.ndarray, np.ndarray]:
    """Will it fail within 30 cycles?"""
    first = lstm(engine(), *keras_arrays(path, "lstm_1"), gate=hard_sigmoid)
    V, d = keras_arrays(path, "dense_1")
    theirs = lstm(first, *keras_arrays(path, "lstm_2"), gate=hard_sigmoid)[-1] @ V + d
    return "NumPy", sigmoid(theirs), sigmoid(lrp.predict(lrp.load(path), engine()))


def find_in_turbofan(path: Path) -> Finding:
    """Which sensor ages the engine, compared with the engine as it was at the beginning."""
    model, x = lrp.load(path, features=ENGINE), engine()
    before = np.tile(x[:10].mean(axis=0), (50, 1))
    found = explained(model, x, target=0, reference=before)
    by_sensor = found.feature_relevance.sum(axis=0)
    order = np.argsort(by_sensor)[::-1][:3]
    listed = ", ".join(f"{ENGINE[k]} ({by_sensor[k]:+.1f})" for k in order)
    score = float(lrp.predict(model, x)[0]) - float(lrp.predict(model, before)[0])
    return f"wear raises the score by {score:+.1f}, most of it by {listed}", verdict(found)


# ------------------------------------------------------------------------------------------------------------ the river


def weather() -> dict[str, np.ndarray]:
    """999 hours in the units of the run: light rain now and then, a storm 30 hours before the end."""
    rng = np.random.default_rng(0)
    rain = rng.gamma(0.05, 4.0, 999)
    rain[-36:-24] += 6
    warm = 283 + 4 * np.sin(np.arange(999) * 2 * np.pi / 24)
    return {"x_d": np.stack([rain, warm], axis=1), "x_s": np.array([300.0, 30.0])}


def compare_river(path: Path) -> tuple[str, np.ndarray, np.ndarray]:
    """Discharge in mm per hour."""
    ours = lrp.predict(lrp.load(path), weather())
    try:
        import torch
        import yaml
    except ImportError:
        return "torch is not installed", ours, ours
    state = torch.load(sorted(path.glob("model_epoch*.pt"))[-1], map_location="cpu", weights_only=True)
    a = {name: tensor.numpy().astype(float) for name, tensor in state.items()}
    scaler = yaml.safe_load((path / "train_data" / "train_data_scaler.yml").read_text())
    center, scale = (scaler[key]["data_vars"] for key in ("xarray_feature_center", "xarray_feature_scale"))
    names = ("APCP_surface", "TMP_2maboveground")
    dynamic = np.stack(
        [(weather()["x_d"][:, k] - center[n]["data"]) / scale[n]["data"] for k, n in enumerate(names)], 1
    )
    means, deviations = scaler["attribute_means"], scaler["attribute_stds"]
    static = [
        (v - means[n]) / deviations[n] for v, n in zip(weather()["x_s"], ("elev_mean", "slope_mean"), strict=True)
    ]
    x = np.hstack([dynamic, np.tile(static, (999, 1))])
    bias = a["lstm.bias_ih_l0"] + a["lstm.bias_hh_l0"]
    h = lstm(x, a["lstm.weight_ih_l0"].T, a["lstm.weight_hh_l0"].T, bias)[-1]
    y = a["head.net.0.weight"] @ h + a["head.net.0.bias"]
    return "NumPy", y * scale["QObs(mm/h)"]["data"] + center["QObs(mm/h)"]["data"], ours


def find_in_river(path: Path) -> Finding:
    """How long the storm lasts in the river."""
    found = explained(lrp.load(path), weather(), target=0)
    rain = found.of_input("x_d").feature_relevance[:, 0]
    storm = rain[-36:-24].sum() / abs(rain).sum()
    score = float(lrp.predict(lrp.load(path), weather())[0])
    hours = f"{rain[-36:-24].sum():+.2f} of it from the twelve hours of the storm"
    text = f"{score:.2f} mm/h, {hours} ({storm:.0%} of all rain)"
    return text, verdict(found)


NETWORKS = (
    Network("silero_vad.onnx", compare_silero, find_in_silero),
    Network("silero_vad_16k_op15.onnx", compare_silero, find_in_silero),
    Network("silero_vad_16k_sequence.onnx", compare_silero_frames, find_in_silero_frames),
    Network("silero_vad_v6.onnx", compare_silero_frames, find_in_silero_frames),
    Network("silero_vad_16k.safetensors", compare_silero_arrays, find_in_silero_arrays),
    Network("dtln_1.onnx", compare_dtln, find_in_dtln),
    Network("dtln_2.onnx", compare_dtln, find_in_dtln),
    Network("rnnoise.hdf5", compare_rnnoise, find_in_rnnoise),
    Network("textgenrnn.hdf5", compare_textgen, find_in_textgen),
    Network("g2p_en.npz", compare_g2p, find_in_g2p),
    Network("turbofan_binary.h5", compare_turbofan, find_in_turbofan),
    Network("noaa_hourly", compare_river, find_in_river),
)

if __name__ == "__main__":
    main()
