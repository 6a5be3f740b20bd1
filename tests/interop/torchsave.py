"""Write files of torch.save with PyTorch itself, in both formats, and PyTorch's own scores beside them.

python -m tests.interop.torchsave tests/fixtures/torchsave
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from torch import nn

D, T = 3, 6


class Network(nn.Module):
    """A recurrent network with a head, read in one of several ways."""

    def __init__(self, kind="LSTM", two=False, depth=1, head=(), readout="last", words=0, units=4, **settings):
        super().__init__()
        torch.manual_seed(sum(map(ord, f"{kind}{two}{depth}{head}{readout}{words}")))
        self.readout, self.two = readout, two
        self.embedding = nn.Embedding(words, D) if words else None
        self.rnn = getattr(nn, kind)(D, units, depth, batch_first=True, bidirectional=two, **settings)
        self.dropout = nn.Dropout(0.2)
        self.fc = nn.Sequential(*head, nn.Linear(head[0].out_features if head else units * (1 + two), 2))

    def forward(self, x):
        if self.embedding is not None:
            x = self.embedding(x)
        out, states = self.rnn(x)
        h_n = states[0] if isinstance(states, tuple) else states
        if self.readout == "last":
            out = torch.cat([h_n[-2], h_n[-1]], dim=1) if self.two else h_n[-1]
        elif self.readout == "last-row":
            out = out[:, -1]
        elif self.readout == "mean":
            out = out.mean(dim=1)
        return self.fc(self.dropout(out))


class Separate(nn.Module):
    """What most tutorials have: modules as attributes, activations in the code."""

    def __init__(self, kind="LSTM", two=False, activation=torch.relu):
        super().__init__()
        torch.manual_seed(7)
        self.lstm = getattr(nn, kind)(D, 4, 2, batch_first=True, bidirectional=two, dropout=0.1)
        self.fc1 = nn.Linear(4 * (1 + two), 5)
        self.fc2 = nn.Linear(5, 1)
        self.activation = activation

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.fc2(self.activation(self.fc1(out[:, -1])))


class Cells(nn.Module):
    """A loop over cells."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(8)
        self.first, self.second = nn.LSTMCell(D, 4), nn.GRUCell(4, 3)
        self.out = nn.Linear(3, 2)

    def forward(self, x):
        h = c = torch.zeros(len(x), 4)
        g = torch.zeros(len(x), 3)
        for t in range(x.shape[1]):
            h, c = self.first(x[:, t], (h, c))
            g = self.second(h, g)
        return self.out(g)


class Tied(nn.Module):
    """A language model whose decoder has the matrix of its embedding: one storage under two names."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(9)
        self.embedding = nn.Embedding(7, D)
        self.gru = nn.GRU(D, D, batch_first=True)
        self.decoder = nn.Linear(D, 7)
        self.decoder.weight = self.embedding.weight

    def forward(self, x):
        return self.decoder(self.gru(self.embedding(x))[0])


class Prelu(nn.Module):
    """A learned activation after the first linear module, which a state_dict lists last."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(10)
        self.up, self.gru, self.predict, self.activation = (
            nn.Linear(D, 5),
            nn.GRU(5, 4, batch_first=True),
            nn.Linear(4, 1),
            nn.PReLU(),
        )

    def forward(self, x):
        return self.predict(self.gru(self.activation(self.up(x)))[0][:, -1])


class Convolved(nn.Module):
    """A convolution and norms around an LSTM, and a softmax at the end."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(11)
        self.conv = nn.Sequential(nn.Conv1d(D, 5, 3, padding=1), nn.BatchNorm1d(5), nn.ReLU())
        self.lstm = nn.LSTM(5, 4, batch_first=True)
        self.norm = nn.LayerNorm(4)
        self.fc = nn.Linear(4, 2)
        self.softmax = nn.Softmax(dim=1)
        self.scores = False
        self.conv[1].running_mean.uniform_(-1, 1)
        self.conv[1].running_var.uniform_(0.5, 2)

    def forward(self, x):
        x = self.conv(x.transpose(1, 2)).transpose(1, 2)
        scores = self.fc(self.norm(self.lstm(x)[0][:, -1]))
        return scores if self.scores else self.softmax(scores)


def flattened(state):
    """The tensors as views of one storage, every second of them transposed: neither whole nor contiguous."""
    numbers = torch.cat([t.reshape(-1) if k % 2 else t.t().reshape(-1) for k, t in enumerate(state.values())])
    found, at = {}, 0
    for k, (name, tensor) in enumerate(state.items()):
        part = numbers[at : at + tensor.numel()]
        found[name] = part.reshape(tensor.shape) if k % 2 else part.reshape(tensor.t().shape).t()
        at += tensor.numel()
    return found


def written(folder):
    """Each file with its row: what `load` is told, an input, PyTorch's scores."""
    # the older format also keeps the source of every class, which is PyTorch's and stays there
    torch.serialization.get_source_lines_and_file = lambda *_, **__: (["pass\n"], 1, "network.py")
    legacy = {"_use_new_zipfile_serialization": False}

    def row(name, module, thing, load=None, words=0, **how):
        torch.save(thing, folder / name, **how)
        random = np.random.default_rng(len(name))
        x = random.integers(0, words, T) if words else random.normal(size=(T, D)).astype(np.float32)
        with torch.no_grad():
            scores = module.float().eval()(torch.tensor(x)[None])[0].numpy()
        return name, {
            "framework": f"torch {torch.__version__}", "load": load or {}, "x": x.tolist(), "scores": scores.tolist(),
        }  # fmt: skip

    plain = Network(depth=2)
    yield row("state.pt", plain, plain.state_dict())
    yield row("state_legacy.pth", plain, plain.state_dict(), **legacy)
    parallel = {f"module.{name}": tensor for name, tensor in plain.state_dict().items()}
    yield row("parallel.bin", plain, {"epoch": 3, "model": parallel, "scaler": np.float64(2.5)})
    two = Separate("GRU", two=True)
    optimizer = torch.optim.Adam(two.parameters())
    two(torch.zeros(1, T, D)).sum().backward()
    optimizer.step()
    checkpoint = {"epoch": 3, "model_state_dict": two.state_dict(), "optimizer_state_dict": optimizer.state_dict()}
    hints = {"readout": "last-row", "activations": ["relu"]}
    yield row("checkpoint.ckpt", two, checkpoint, hints)
    yield row("checkpoint_legacy.ckpt", two, checkpoint, hints, **legacy)
    lightning = {
        "state_dict": {f"model.{name}": t for name, t in two.state_dict().items()},
        "epoch": 1,
        "callbacks": {},
    }
    yield row("lightning.ckpt", two, lightning, hints)
    rnn = Network("RNN", head=(nn.Linear(4, 5), nn.ReLU(), nn.Dropout(0.1)), nonlinearity="relu")
    yield row("module.pt", rnn, rnn)
    words = Network("LSTM", two=True, words=11, head=(nn.Linear(8, 5), nn.Tanh()), readout="mean")
    yield row("words_legacy.pt", words, words, {"readout": "mean"}, words=11, **legacy)
    cells = Cells()
    yield row("cells.pt", cells, cells.state_dict(), {"layers": ["first", "second", "out"]})
    tied = Tied()
    yield row("tied.pt", tied, tied.state_dict(), {"readout": "every"}, words=7)
    yield row("tied_legacy.pt", tied, tied.state_dict(), {"readout": "every"}, words=7, **legacy)
    views = Network("GRU", depth=2, bias=False)
    yield row("views.pt", views, flattened(views.state_dict()))
    yield row("views_legacy.pt", views, flattened(views.state_dict()), **legacy)
    for name, kind in (("bfloat16", torch.bfloat16), ("float16", torch.float16), ("float64", torch.float64)):
        narrow = Network("LSTM").to(kind)
        yield row(f"{name}.pt", narrow, narrow.state_dict(), **(legacy if name == "float16" else {}))
    convolved = Convolved()
    convolved.scores = True
    yield row("convolved.pt", convolved, convolved)
    prelu = Prelu()
    yield row("prelu.pt", prelu, prelu.state_dict(), {"layers": ["up", "activation", "gru", "predict"]})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "expected.json").write_text(json.dumps(dict(written(folder)), indent=1) + "\n")


if __name__ == "__main__":
    main()
