"""Nothing of PyTorch opens with other scores than the module's unless a warning names the assumption."""

import ast
import random
import re
import threading
import warnings

import numpy as np
import pytest
from networks import close

import lrpnumpy as lrp

torch = pytest.importorskip("torch")
from interop import livemodules  # noqa: E402
from torch import nn  # noqa: E402

D, H = 3, 4


class Net(nn.Module):
    """Modules by name, and a function of them and of the input."""

    def __init__(self, call, **parts):
        super().__init__()
        self.call = call
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *x):
        return self.call(self, *x)


def seeded(call, **parts):
    """A network with clearly different weights everywhere."""
    torch.manual_seed(0)
    made = Net(call, **{name: part() for name, part in parts.items()})
    for name, tensor in made.state_dict().items():
        if tensor.is_floating_point():
            tensor.copy_(torch.randn(tensor.shape) * 0.5)
        if name.endswith("running_var"):
            tensor.abs_()
    return made.eval()


def lstm(inputs=D, units=H):
    return lambda: nn.LSTM(inputs, units, batch_first=True)


def linear(*sizes, **more):
    return lambda: nn.Linear(*sizes, **more)


def parameter(*shape):
    return lambda: nn.Parameter(torch.zeros(shape))


# ------------------------------------------------------------------------------------------------ state_dicts


def peephole(net, x):
    h = c = torch.zeros(len(x), H)
    for t in range(x.shape[1]):
        both = torch.cat([x[:, t], h], dim=1)
        i, f = torch.sigmoid(net.W_i(both) + net.p_i * c), torch.sigmoid(net.W_f(both) + net.p_f * c)
        c = f * c + i * torch.tanh(net.W_c(both))
        h = torch.sigmoid(net.W_o(both)) * torch.tanh(c)
    return net.fc(h)


def learned_start(net, x):
    start = (net.h0.expand(1, len(x), H).contiguous(), torch.zeros(1, len(x), H))
    return net.fc(net.lstm(x, start)[0][:, -1])


IN_ORDER = r"the modules are applied .*, one after the other, without branches, sums or other steps between them"
GATES = {f"W_{gate}": linear(D + H, H) for gate in "ifco"}
STATES = {  # a network, what the warning must name, and layers= where the advice has no example
    "relu of the last step": (
        seeded(lambda n, x: n.fc(torch.relu(n.lstm(x)[0][:, -1])), lstm=lstm(), fc=linear(H, 2)),
        "no activation is applied after lstm, fc",
    ),
    "autoencoder": (livemodules.Autoencoder().eval(), IN_ORDER, ["encoder", "decoder", "out"]),
    "parallel": (
        seeded(
            lambda n, x: n.fc(n.a(x)[0][:, -1] + n.b(x)[0][:, -1]), a=lstm(units=D), b=lstm(units=D), fc=linear(D, 2)
        ),
        IN_ORDER,
    ),
    "residual": (livemodules.Residual().eval(), IN_ORDER),
    "BatchNorm before the head": (
        seeded(
            lambda n, x: n.fc2(torch.relu(n.fc1(n.bn(n.lstm(x)[0][:, -1])))),
            lstm=lstm(), fc1=linear(H, H), bn=lambda: nn.BatchNorm1d(H), fc2=linear(H, 2),
        ),
        f"{IN_ORDER}: lstm, fc1, bn, fc2",
    ),
    "peepholes": (
        seeded(peephole, **GATES, p_i=parameter(H), p_f=parameter(H), fc=linear(H, 2)),
        "these arrays are not used: p_i, p_f",
        ["lstm(i=W_i, f=W_f, g=W_c, o=W_o, order=xh)", "fc"],
    ),
    "learned start state": (
        seeded(learned_start, lstm=lstm(), h0=parameter(1, 1, H), fc=linear(H, 2)),
        "these arrays are not used: h0",
        ["lstm", "fc"],
    ),
    "two heads": (
        seeded(lambda n, x: n.value(n.lstm(x)[0][:, -1]), lstm=lstm(), policy=linear(H, H), value=linear(H, 1)),
        f"{IN_ORDER}: lstm, policy, value",
    ),
    "category": (
        seeded(
            lambda n, x: n.fc(n.lstm(x)[0][:, -1]),
            lstm=lstm(), fc=linear(H, H), category=lambda: nn.Embedding(5, H),
        ),
        r"category.weight \(5, 4\) is the weight of a Linear",
        ["lstm", "fc", "category"],
    ),
    "category by name": (
        seeded(
            lambda n, x: n.fc(n.lstm(x)[0][:, -1] + n.cat_emb.weight[2]),
            lstm=lstm(), fc=linear(H, H), cat_emb=lambda: nn.Embedding(5, H),
        ),
        "these arrays are not used: cat_emb.weight",
    ),
}  # fmt: skip


def advised(state, **hints):
    """The model that an obedient user arrives at: each hint of an error, word by word; None if it is refused."""
    for _ in range(5):
        try:
            return lrp.from_torch(state, **hints)
        except lrp.LrpError as error:
            if "expects the scores" in str(error):
                raise
            found = re.findall(r"\b(layers|activations)=(\['[^\[\]]*'\])", str(error))
            found += re.findall(r"\b(readout)=('[a-z-]+')", str(error))
            hints |= {name: ast.literal_eval(value) for name, value in found[:2] if name not in hints}
    return None


def warned(function, *args, **hints):
    """What a function gives, and its warnings about assumptions as one text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = function(*args, **hints)
    return found, " ".join(str(one.message) for one in caught if one.category is lrp.AssumptionWarning)


def scores(module, x):
    with torch.no_grad():
        return module(torch.as_tensor(x)[None])[0].numpy()


@pytest.mark.parametrize("readout", ["last", None])
@pytest.mark.parametrize("name", STATES)
def test_a_state_dict_warns_of_what_was_assumed_until_the_scores_are_checked(name, readout):
    module, says, *layers = STATES[name]
    hints = {} if readout is None else {"readout": "every" if name == "autoencoder" else readout}
    hints |= {"layers": layers[0]} if layers else {}
    model, text = warned(advised, module.state_dict(), **hints)
    assert re.search(says, text), text
    x = np.random.default_rng(0).normal(size=(6, D)).astype("f4")
    y = scores(module, x)
    ours = lrp.predict(model, x)
    assert ours.shape != y.shape or np.abs(ours - y).max() > 1e-3  # the case is a case
    with pytest.raises(lrp.LrpError, match="expects the scores"):
        advised(module.state_dict(), check=(x, y), **hints)
    assert warned(advised, module.state_dict(), check=(x, ours), **hints)[1] == ""


@pytest.mark.parametrize("name, readout", [("autoencoder", "every"), ("category", "last")])
def test_advice_for_a_state_dict_is_right(name, readout):
    module = STATES[name][0]
    x = np.random.default_rng(0).normal(size=(6, D)).astype("f4")
    model = advised(module.state_dict(), readout=readout, check=(x, scores(module, x)))
    close(lrp.predict(model, x), scores(module, x), tol=1e-5)


@pytest.mark.parametrize("name", livemodules.MODULES)
def test_the_state_of_a_live_module_is_right_or_warns(name):
    module = livemodules.MODULES[name][0]().eval()
    for readout in (None, "last", "mean", "every"):
        model, text = warned(advised, module.state_dict(), **({} if readout is None else {"readout": readout}))
        assert model is None or "assumed: " in text


# ------------------------------------------------------------------------------------------------ live modules


def read(call):
    return seeded(lambda n, x: n.fc(call(n, x)), lstm=lstm(), fc=linear(H, 2))


SEEN = {
    "the last 10 steps": read(lambda n, x: n.lstm(x[:, -10:])[0][:, -1]),
    "clamped": read(lambda n, x: n.lstm(x.clamp(-5, 5))[0][:, -1]),
    "step 6": read(lambda n, x: n.lstm(x)[0][:, 6]),
    "sum over 7": read(lambda n, x: n.lstm(x)[0].sum(1) / 7),
}
SEEN["absolute values"] = read(lambda n, x: n.lstm(x.abs())[0][:, -1].abs())
ODD = {
    "small numbers only": read(lambda n, x: torch.where(x.abs().amax() < 1, n.lstm(-x)[0][:, -1], n.lstm(x)[0][:, -1])),
    "one step": read(lambda n, x: n.lstm(x)[0][:, -1] * (2 if x.shape[1] == 1 else 1)),
}


@pytest.mark.parametrize("name", SEEN)
def test_what_ordinary_steps_do_not_show_is_seen(name):
    module, rng = SEEN[name], np.random.default_rng(0)
    for check in (None, torch.randn(8, 7, D)):
        model, text = warned(lrp.from_torch, module, check=check)
        assert text == "" or "index 6 is out of bounds" in text
        for steps in (7, 9, 25):
            x = rng.normal(0, 4, size=(steps, D)).astype("f4")
            close(lrp.predict(model, x), scores(module, x), 1e-5)


@pytest.mark.parametrize("name", ODD)
def test_modules_that_are_ordinary_for_one_probe_only_are_refused(name):
    with pytest.raises(lrp.LrpError):
        lrp.from_torch(ODD[name])
    with pytest.raises(lrp.LrpError):
        lrp.from_torch(ODD[name], check=torch.randn(8, 7, D))


def packed_numbers(net, x):
    lengths = (x.abs().sum(-1) > 0).sum(1)
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return net.lstm(packed)[1][0][-1]


CONDITIONS = {  # on the input, and what the warning names
    "a missing value": (lambda n, x: n.lstm(torch.where(x == -999, 0.0, x))[0][:, -1], "x == -999 is False"),
    "one column": (lambda n, x: n.lstm(x * (x[..., 1:2] != -1).float())[0][:, -1], "getitem(...) != -1 is True"),
    "small values": (lambda n, x: n.lstm(x.masked_fill(x < -100, 0))[0][:, -1], "x < -100 is False"),
    "large values": (lambda n, x: n.lstm(torch.where(x > 60, 1.0, x))[0][:, -1], "x > 60 is False"),
    "steps of zeros": (packed_numbers, "sum(...) > 0 is True"),
    "Python": (lambda n, x: n.lstm(-x if x.mean() > 50 else x)[0][:, -1], "mean(...) > 50 is False"),
    "hidden": (lambda n, x: n.lstm(x)[0][:, -1] * ((n.lstm(x)[0] < 2).all() + 0.0), "lstm(...) < 2 is True"),
    "read": (lambda n, x: n.lstm(-x if x.sum().item() > 1e6 else x)[0][:, -1], "with item(sum(...)) is the same"),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_that_ordinary_numbers_do_not_meet_are_named(name):
    call, says = CONDITIONS[name]
    module = read(call)
    model, text = warned(lrp.from_torch, module)
    assert f"assumed: {says}" in text or f"assumed: what the module does {says}" in text, text
    x = np.random.default_rng(0).normal(size=(9, D)).astype("f4")
    close(lrp.predict(model, x), scores(module, x), 1e-5)


def test_token_ids_that_repeat():
    def call(net, ids):
        odd = (ids == ids[:, :1]).all(1, keepdim=True)
        h = net.lstm(net.emb(ids))[0][:, -1]
        return net.fc(torch.where(odd, -h, h))

    module = seeded(call, emb=lambda: nn.Embedding(50, D), lstm=lstm(), fc=linear(H, 2))
    with pytest.raises(lrp.LrpError, match="the model made of it"):
        lrp.from_torch(module)


def test_lengths_that_the_module_refuses_are_named():
    def call(net, x):
        if x.shape[1] < 5:
            raise ValueError("too short")
        return net.fc(net.lstm(x)[0][:, -1])

    module = seeded(call, lstm=lstm(), fc=linear(H, 2))
    model, text = warned(lrp.from_torch, module)
    assert "raises an error for sequences of 1 steps (ValueError: too short)" in text
    x = np.random.default_rng(0).normal(size=(6, D)).astype("f4")
    close(lrp.predict(model, x), scores(module, x), 1e-5)


def test_a_module_of_one_lstm_is_not_an_lstm():
    module = seeded(lambda n, x: torch.cos(n.lstm(x)[0][:, -1]), lstm=lstm())
    with pytest.raises(lrp.LrpError):
        lrp.from_torch(module)


# ----------------------------------------------------------------------------------------------------- padding


def packed_by(lengths_of):
    def call(net, ids, *lengths):
        sizes = lengths[0] if lengths else lengths_of(ids)
        packed = nn.utils.rnn.pack_padded_sequence(net.emb(ids), sizes, batch_first=True, enforce_sorted=False)
        return net.fc(net.lstm(packed)[1][0][-1])

    return call


IDS, LENGTHS = torch.tensor([[3, 5, 7, 2, 6], [4, 8, 0, 0, 0]]), torch.tensor([5, 2])


class Packed(nn.Module):
    """Takes the lengths as its second input."""

    def __init__(self, **more):
        super().__init__()
        self.emb, self.lstm, self.fc = nn.Embedding(9, D, **more), lstm()(), nn.Linear(H, 2)

    def forward(self, ids, lengths):
        return packed_by(None)(self, ids, lengths)


@pytest.mark.parametrize("pad", [0, 1])
def test_padding_that_a_module_packs_away_is_skipped(pad):
    module = seeded(
        packed_by(lambda ids: (ids != pad).sum(1)), emb=lambda: nn.Embedding(9, D), lstm=lstm(), fc=linear(H, 2)
    )
    ids = torch.where(IDS == 0, pad, IDS)
    model, text = warned(lrp.from_torch, module)
    assert model.embedding.mask == pad and "padded with" not in text
    assert f"for token ids that begin with {pad}, token ids with {pad} in the middle: pass each" in text  # it counts
    with torch.no_grad():
        close(lrp.predict_all(model, list(ids.numpy())), module(ids).numpy(), 1e-5)


def test_padding_that_only_an_attention_skips_is_named_where_it_is_not_at_the_end():
    def call(net, ids):
        out = net.lstm(net.emb(ids))[0]
        weights = net.fc(out)[..., 0].masked_fill(ids == 0, -1e9).softmax(1)
        return net.fc((out * weights.unsqueeze(-1)).sum(1))

    module = seeded(call, emb=lambda: nn.Embedding(9, D), lstm=lstm(), fc=linear(H, 2))
    model, text = warned(lrp.from_torch, module)
    assert model.embedding.mask == 0
    assert "for token ids that begin with 0, token ids with 0 in the middle: pass each sequence" in text
    with torch.no_grad():
        close(lrp.predict_all(model, list(IDS.numpy())), module(IDS).numpy(), 1e-5)


def masked_mean(net, ids):
    mask = (ids != 0).float().unsqueeze(-1)
    return net.fc((net.lstm(net.emb(ids))[0] * mask).sum(1) / mask.sum(1))


OF_IDS = {
    "masked mean": (masked_mean, 9),
    "one hot": (lambda n, ids: n.fc(n.lstm(nn.functional.one_hot(ids, 9).float())[0][:, -1]), None),
}


@pytest.mark.parametrize("name", OF_IDS)
def test_what_modules_do_with_token_ids(name):
    call, rows = OF_IDS[name]
    parts = {"emb": lambda: nn.Embedding(rows, D)} if rows else {}
    module = seeded(call, **parts, lstm=lstm(D if rows else 9), fc=linear(H, 2))
    ids = IDS if name == "masked mean" else IDS[:1]
    model = warned(lrp.from_torch, module, check=None if rows else ids)[0]
    with torch.no_grad():
        close(lrp.predict_all(model, list(ids.numpy())), module(ids).numpy(), 1e-5)


def test_padding_by_any_token_id_is_seen():
    module = seeded(
        packed_by(lambda ids: (ids != 101).sum(1)), emb=lambda: nn.Embedding(5000, D), lstm=lstm(), fc=linear(H, 2)
    )
    assert warned(lrp.from_torch, module)[0].embedding.mask == 101


def test_padding_of_a_module_that_takes_lengths():
    torch.manual_seed(0)
    module = Packed(padding_idx=0).eval()
    model, text = warned(lrp.from_torch, module)
    assert model.embedding.mask == 0 and text == ""
    with torch.no_grad():
        close(lrp.predict_all(model, list(IDS.numpy())), module(IDS, LENGTHS).numpy(), 1e-5)
    module = Packed().eval()
    model, text = warned(lrp.from_torch, module)
    assert "pass each sequence at its own length, without padding" in text
    with torch.no_grad():
        close(lrp.predict_all(model, [IDS[0].numpy(), IDS[1, :2].numpy()]), module(IDS, LENGTHS).numpy(), 1e-5)


def test_padding_that_a_module_computes_with_is_computed_with():
    module = seeded(
        lambda n, ids: n.fc(n.lstm(n.emb(ids))[0][:, -1]),
        emb=lambda: nn.Embedding(9, D, padding_idx=0), lstm=lstm(), fc=linear(H, 2),
    )  # fmt: skip
    model, text = warned(lrp.from_torch, module)
    assert model.embedding.mask is None and text == ""
    with torch.no_grad():
        close(lrp.predict_all(model, list(IDS.numpy())), module(IDS).numpy(), 1e-5)


def test_padding_that_cannot_be_skipped_is_named():
    def call(net, ids):
        return net.fc(net.lstm(net.emb(ids))[0][:, -1] * (ids != 0).float().mean(1, keepdim=True))

    module = seeded(call, emb=lambda: nn.Embedding(9, D), lstm=lstm(), fc=linear(H, 2))
    _, text = warned(lrp.from_torch, module)
    assert "not those of the module for token ids padded with 0" in text


# ----------------------------------------------------------------------------------------------------- outputs


def gaussian(form):
    def call(net, x):
        h = net.lstm(x)[0][:, -1]
        return form(net.mu(h), net.sigma(h))

    return seeded(call, lstm=lstm(), mu=linear(H, 1), sigma=linear(H, 1))


@pytest.mark.parametrize(
    ("form", "first", "second"),
    [
        (lambda mu, sigma: (mu, sigma), "0", "1"),
        (lambda mu, sigma: {"mu": mu, "sigma": sigma}, "mu", "sigma"),
        (lambda mu, sigma: [mu, {"sigma": sigma}], "0", "1.sigma"),
    ],
)
def test_several_outputs_are_named(form, first, second):
    module = gaussian(form)
    x = torch.randn(1, 6, D, generator=torch.Generator().manual_seed(1))
    h = module.lstm(x)[0][:, -1]
    model, text = warned(lrp.from_torch, module)
    assert "the module has 2 outputs" in text and f"'{second}'" in text and f"which='{first}' is taken" in text
    close(lrp.predict(model, x[0].numpy()), module.mu(h)[0].detach().numpy(), 1e-5)
    for which, part in ((first, module.mu), (second, module.sigma)):
        model, text = warned(lrp.from_torch, module, which=which)
        assert text == ""
        close(lrp.predict(model, x[0].numpy()), part(h)[0].detach().numpy(), 1e-5)
    with pytest.raises(lrp.LrpError, match="which must be an output of the module, of '"):
        lrp.from_torch(module, which="variance")


def test_an_output_without_tensors_is_named():
    class Output:
        def __init__(self, scores):
            self.scores = scores

    module = read(lambda n, x: n.lstm(x)[0][:, -1])
    module.call = lambda n, x, call=module.call: Output(call(n, x))
    with pytest.raises(lrp.LrpError, match=r"^from_torch: the output of the module has no tensor: make forward return"):
        lrp.from_torch(module, check=torch.randn(8, 7, D))


def test_a_prediction_at_each_step_of_packed_sequences():
    def call(net, ids):
        lengths = (ids != 0).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(net.emb(ids), lengths, batch_first=True, enforce_sorted=False)
        return net.fc(nn.utils.rnn.pad_packed_sequence(net.lstm(packed)[0], batch_first=True)[0])

    module = seeded(call, emb=lambda: nn.Embedding(9, D), lstm=lstm(), fc=linear(H, 2))
    model, text = warned(lrp.from_torch, module)
    assert model.every and "for token ids padded with 0" in text
    with torch.no_grad():
        close(lrp.predict(model, IDS[0].numpy()), module(IDS[:1])[0].numpy(), 1e-5)


def test_scores_that_look_the_same_are_told_apart():
    module = read(lambda n, x: n.lstm(x)[0][:, -1] + 3e-5 * (x.shape[1] == 1))
    with pytest.raises(lrp.LrpError, match=r"the largest difference is \d"):
        lrp.from_torch(module)


def test_the_outputs_of_a_recurrent_module_are_known():
    assert warned(lrp.from_torch, nn.LSTM(D, H, batch_first=True))[1] == ""
    with pytest.raises(lrp.LrpError, match="which names an output of a module"):
        lrp.from_torch(nn.LSTM(D, H).state_dict(), which="0")


# ------------------------------------------------------------------------------------------------------- state


class Memory:
    """An object that a module holds."""

    def __init__(self):
        self.calls = 0


class Stateful(nn.Module):
    """Writes to attributes, containers, buffers and parameters, and draws random numbers."""

    def __init__(self):
        super().__init__()
        self.uses = nn.Parameter(torch.zeros(1), requires_grad=False)
        self.lstm, self.fc, self.dropout = lstm()(), nn.Linear(H, 2), nn.Dropout()
        self.hidden, self.history, self.counts = None, [], {"calls": 0, "inner": [torch.zeros(2)]}
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        out, self.hidden = self.lstm(x, self.hidden)
        self.history.append(out)
        self.counts["calls"] += 1
        self.counts["inner"][0] += 1
        self.seen += len(x)
        self.extra = out
        self.uses += 1
        if hasattr(self, "memory"):
            self.memory.calls += 1
        torch.rand(1), np.random.rand(), random.random()  # noqa: NPY002
        return self.fc(out[:, -1])


def state_of(module):
    """Everything that a run may change, as plain data."""
    attributes = [sorted(vars(part)) for part in module.modules()]
    arrays = {name: tensor.tolist() for name, tensor in module.state_dict().items()}
    counts = (len(module.history), module.counts["calls"], module.counts["inner"][0].tolist())
    hidden = [one.tolist() for one in module.hidden or ()]
    modes = [part.training for part in module.modules()]
    numbers = torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
    return attributes, arrays, counts, hidden, modes, numbers


@pytest.mark.parametrize("trained", [False, True])
def test_a_module_is_left_as_it_was(trained):
    torch.manual_seed(0)
    module = Stateful()
    if trained:  # its state is then part of a graph of gradients
        module(torch.randn(8, 7, D))
        module.history.clear()
        del module.extra
    module.lstm.eval()
    module.memory = Memory()
    hidden, before = module.hidden, state_of(module)
    for check in (None, torch.randn(8, 7, D, generator=torch.Generator().manual_seed(0))):
        if trained:
            with pytest.raises(lrp.LrpError, match="start states that differ"):  # it starts elsewhere
                lrp.from_torch(module, check=check)
        else:
            lrp.from_torch(module, check=check)
        assert module.hidden is hidden and state_of(module) == before and module.memory.calls == 0


# ---- functions of torch between an LSTM and its head; from_torch compares the scores itself ----


def _causal(module, y):
    mask = torch.triu(torch.ones(y.shape[1], y.shape[1], dtype=torch.bool), 1)
    return module.attention(y, y, y, attn_mask=mask, need_weights=False)[0][:, -1]


def _attended(module, y):
    weights = torch.softmax(torch.einsum("bth,bh->bt", module.between(y), y[:, -1]), 1)
    return torch.einsum("bt,bth->bh", weights, y)


FUNCTIONS = {
    "einsum, attention": _attended,
    "einsum, a matrix": lambda m, y: torch.einsum("bth,kh->btk", y, m.between.weight)[:, -1],
    "addmm": lambda m, y: torch.addmm(m.between.bias, y[:, -1], m.between.weight.t()),
    "relu6": lambda m, y: torch.nn.functional.relu6(9 * y[:, -1]),
    "celu": lambda m, y: torch.nn.functional.celu(y[:, -1]),
    "logsigmoid": lambda m, y: torch.nn.functional.logsigmoid(y[:, -1]),
    "abs": lambda m, y: abs(y[:, -1]),
    "hstack": lambda m, y: torch.hstack([y[:, -1, :2], y[:, 0, 2:]]),
    "mT": lambda m, y: y.mT.mean(-1),
    "a causal mask": _causal,
}


class Between(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        torch.manual_seed(0)
        self.lstm, self.between, self.head = (
            torch.nn.LSTM(3, 4, batch_first=True),
            torch.nn.Linear(4, 4),
            torch.nn.Linear(4, 2),
        )
        self.attention, self.function = torch.nn.MultiheadAttention(4, 2, batch_first=True), function

    def forward(self, x):
        return self.head(self.function(self, self.lstm(x)[0]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_torch(name):
    module, x = Between(FUNCTIONS[name]).eval(), torch.randn(1, 9, 3)
    found = lrp.from_torch(module)
    np.testing.assert_allclose(lrp.predict(found, x[0].numpy()), module(x)[0].detach().numpy(), atol=1e-5)


def test_pools_whose_last_window_is_partial_are_refused():
    pooled = Between(lambda m, y: torch.nn.functional.max_pool1d(y.transpose(1, 2), 2, ceil_mode=True).mean(-1))
    with pytest.raises(lrp.WeightFileError, match="ceil_mode"):
        lrp.from_torch(pooled.eval())


class Locked(nn.Module):
    """A network with attributes that cannot be copied, or that are not what their names mean elsewhere."""

    def __init__(self):
        super().__init__()
        self.lock, self.input_size, self.calls = threading.Lock(), [D], []
        self.rnn, self.head = nn.LSTM(D, H, batch_first=True), nn.Linear(H, 2)

    def forward(self, x):
        with self.lock:
            self.calls.append(x)
            return self.head(self.rnn(x)[0][:, -1])


def test_a_module_with_a_lock_is_run_and_left_as_it_was():
    module = Locked().eval()
    x = torch.randn(2, 5, D)
    model = lrp.from_torch(module)
    assert module.calls == []
    close(lrp.predict(model, x[0].numpy()), module(x).detach().numpy()[0], 1e-5)


def test_an_output_may_be_a_packed_sequence():
    def packed(m, x):
        return nn.utils.rnn.pack_padded_sequence(m.head(m.rnn(x)[0]), [x.shape[1]] * len(x), batch_first=True)

    module = seeded(packed, rnn=lstm(), head=linear(H, 2))
    with pytest.warns(lrp.AssumptionWarning, match="which='0' is taken"):
        lrp.from_torch(module)


def test_a_condition_on_a_part_of_a_tensor_is_not_named_after_another_function():
    def branched(m, x):
        first, _ = x.split([1, D - 1], -1)
        scores = m.head(m.rnn(x)[0][:, -1])
        return scores * 2 if bool((first > 1e6).any()) else scores

    with pytest.warns(lrp.AssumptionWarning, match=r"getitem\(\.\.\.\) > 1000000\.0 is False"):
        lrp.from_torch(seeded(branched, rnn=lstm(), head=linear(H, 2)))


CUSTOM_CELLS = {
    "scales": lambda m, x, z, h: 2 * z * h / 4,
    "a constant minus a gate": lambda m, x, z, h: (3 - z) * torch.tanh(m.u(x)) - z * h,
    "a gate and its complement": lambda m, x, z, h: (1 - z) * h + z * torch.tanh(m.u(x)),
    "a square": lambda m, x, z, h: z * z + 0.1 - h,
}


@pytest.mark.parametrize("name", CUSTOM_CELLS)
def test_a_custom_cell_in_a_loop(name):
    def looped(m, x):
        h = x.new_zeros(len(x), H)
        for t in range(x.shape[1]):
            h = CUSTOM_CELLS[name](m, x[:, t], torch.sigmoid(m.u(x[:, t]) + m.w(h)), h)
        return m.head(h)

    module = seeded(looped, u=linear(D, H), w=linear(H, H), head=linear(H, 2))
    x = torch.randn(7, D)
    model = lrp.from_torch(module)
    assert "StoredCell" in repr(model)
    close(lrp.predict(model, x.numpy()), module(x[None]).detach().numpy()[0], 1e-5)


def test_a_custom_cell_of_two_states_in_a_loop():
    def looped(m, x):
        h, c = x.new_zeros(len(x), H), x.new_zeros(len(x), H)
        for t in range(x.shape[1]):
            i, o, g = m.gates(torch.cat([x[:, t], h], 1)).chunk(3, 1)
            c = (1 - torch.sigmoid(i)) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return m.head(h)

    module = seeded(looped, gates=linear(D + H, 3 * H), head=linear(H, 2))
    x = torch.randn(2, 7, D)
    close(lrp.predict(lrp.from_torch(module, check=x), x[0].numpy()), module(x).detach().numpy()[0], 1e-5)
