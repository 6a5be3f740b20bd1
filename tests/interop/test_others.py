"""Models as other libraries write them: their files, or their live modules, give the scores of the library.

A library that is not installed is skipped. tsai and fastai are imitated: their modules are restated here.
"""

import warnings
import zipfile

import numpy as np
import pytest

import lrpnumpy as lrp

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

D, H, T = 3, 5, 12
pytestmark = pytest.mark.filterwarnings("ignore")


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(D, H, batch_first=True), nn.Linear(H, 2)

    def forward(self, x):
        return self.fc(self.lstm(x)[0][:, -1])


def scores_of(module, *args):
    with torch.no_grad():
        return module(*args)


def close(model, records, y):
    """Whether a model gives these scores, the first axis of which is the records."""
    scores = np.stack(list(lrp.predict_all(model, list(records))))
    if model.output == "softmax":
        scores = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    y = np.asarray(y).reshape(scores.shape)
    np.testing.assert_allclose(scores, y, rtol=0, atol=1e-5 * np.abs(y).max())


# ----------------------------------------------------------------------------------------- skorch, Hugging Face


def test_skorch(tmp_path):
    skorch = pytest.importorskip("skorch")
    net = skorch.NeuralNetRegressor(Forecast, max_epochs=1, verbose=0, train_split=None)
    x = np.random.default_rng(0).normal(size=(4, T, D)).astype("f4")
    net.fit(x, np.zeros((4, 2), "f4"))
    y = net.predict(x)
    close(lrp.from_torch(net.module_), x, y)
    net.save_params(f_params=tmp_path / "params.pt")
    close(lrp.load(tmp_path / "params.pt", readout="last"), x, y)


def test_a_folder_of_hugging_face(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    module, x = Forecast(), torch.randn(4, T, D)
    safetensors.save_file(module.state_dict(), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"model_type": "forecast"}')
    close(lrp.load(tmp_path), x.numpy(), scores_of(module, x))


# ------------------------------------------------------------------------------------------------ sb3-contrib


def test_an_agent_of_sb3_contrib(tmp_path):
    sb3 = pytest.importorskip("sb3_contrib")
    settings = {"lstm_hidden_size": H, "net_arch": {"pi": [4], "vf": [4]}}
    agent = sb3.RecurrentPPO("MlpLstmPolicy", "CartPole-v1", n_steps=8, policy_kwargs=settings, device="cpu")
    agent.save(tmp_path / "agent.zip")
    order = ["lstm_actor", "mlp_extractor.policy_net.0", "tanh", "action_net"]
    model = lrp.load(tmp_path / "agent.zip", layers=order, readout="every", output="softmax")
    x = np.random.default_rng(0).normal(size=(T, 4)).astype("f4")
    zeros, starts = (torch.zeros(1, 1, H), torch.zeros(1, 1, H)), torch.zeros(1)
    found = []
    for row in x:
        distribution, zeros = agent.policy.get_distribution(torch.tensor(row[None]), zeros, starts)
        found.append(distribution.distribution.probs.detach().numpy()[0])
    close(model, [x], [found])


# ---------------------------------------------------------------------------------------- pytorch-forecasting


@pytest.fixture(scope="module")
def forecasting():
    """A small data set with a category, as in the library's tutorials."""
    library = pytest.importorskip("pytorch_forecasting")
    pandas = pytest.importorskip("pandas")
    steps = np.arange(40)
    parts = [pandas.DataFrame({"time": steps, "shop": shop, "sales": np.sin(steps / 4) + k, "price": np.cos(steps)})
             for k, shop in enumerate("ab")]  # fmt: skip
    data = library.TimeSeriesDataSet(
        pandas.concat(parts, ignore_index=True), time_idx="time", target="sales", group_ids=["shop"],
        max_encoder_length=T, max_prediction_length=1, static_categoricals=["shop"],
        time_varying_known_reals=["price"], time_varying_unknown_reals=["sales"],
    )  # fmt: skip
    return library, data


@pytest.mark.parametrize("name", ["RecurrentNetwork", "DeepAR"])
def test_pytorch_forecasting(name, forecasting, tmp_path):
    """The network without the library's decoding: the inputs of the encoder, through the LSTM, to the last Linear."""
    library, data = forecasting
    module = getattr(library, name).from_dataset(data, hidden_size=H, rnn_layers=2).eval()
    heads = [key for key, part in module.named_modules() if isinstance(part, nn.Linear)]
    torch.save({"state_dict": module.state_dict(), "hyper_parameters": {}}, tmp_path / "model.ckpt")
    with pytest.raises(lrp.WeightFileError, match=rf"say layers=\['rnn', '{heads[0]}'\]"):
        lrp.load(tmp_path / "model.ckpt")
    model = lrp.load(tmp_path / "model.ckpt", layers=["rnn", heads[0]], readout="every")
    x = torch.randn(2, T, module.rnn.input_size)
    with torch.no_grad():
        y = module.get_submodule(heads[0])(module.rnn(x)[0])
    close(model, x.numpy(), y)


# ---------------------------------------------------------------------------------------------------- gluonts


def test_deepar_of_gluonts(tmp_path):
    """The LSTM and the projection to the parameters of the distribution."""
    gluonts = pytest.importorskip("gluonts.torch.model.deepar.module")
    network = gluonts.DeepARModel(
        freq="D", context_length=T, prediction_length=1, num_feat_dynamic_real=1, num_feat_static_real=1,
        num_feat_static_cat=1, cardinality=[1], hidden_size=H, num_layers=2,
    ).eval()  # fmt: skip
    torch.save({"state_dict": {f"model.{key}": one for key, one in network.state_dict().items()}}, tmp_path / "m.ckpt")
    x = torch.randn(2, T, network.rnn.input_size)
    with torch.no_grad():
        rows = network.rnn(x)[0]
        heads = [part(rows) for part in network.param_proj.proj]
    for k, y in enumerate(heads):
        order = ["model.rnn", f"model.param_proj.proj.{k}"]
        close(lrp.load(tmp_path / "m.ckpt", layers=order, readout="every"), x.numpy(), y)


# -------------------------------------------------------------------------------------------- tsai and fastai


class TsaiLstm(nn.Module):
    """tsai's LSTM and LSTMPlus: channels first."""

    def __init__(self, two=False):
        super().__init__()
        self.rnn = nn.LSTM(D, H, num_layers=2, batch_first=True, bidirectional=two)
        self.dropout, self.fc = nn.Dropout(0.1), nn.Linear(H * (1 + two), 2)

    def forward(self, x):
        x = x.transpose(2, 1)
        output, _ = self.rnn(x)
        return self.fc(self.dropout(output[:, -1]))


@pytest.mark.parametrize("two", [False, True])
def test_an_lstm_of_tsai(two):
    module, x = TsaiLstm(two).eval(), torch.randn(4, D, T)
    model = lrp.from_torch(module, check=x)
    close(model, x.transpose(1, 2).numpy(), scores_of(module, x))


class TsaiFcn(nn.Module):
    """tsai's LSTM_FCN: an LSTM that reads the steps as features, beside convolutions."""

    def __init__(self, shuffle=True):
        super().__init__()
        self.shuffle = shuffle
        self.rnn = nn.LSTM(T if shuffle else D, H, batch_first=True)
        self.conv1, self.bn1 = nn.Conv1d(D, 4, 3, padding=1), nn.BatchNorm1d(4)
        self.conv2, self.bn2 = nn.Conv1d(4, 4, 3, padding=1), nn.BatchNorm1d(4)
        self.gap, self.fc = nn.AdaptiveAvgPool1d(1), nn.Linear(H + 4, 2)

    def forward(self, x):
        series = x if self.shuffle else x.permute(0, 2, 1)
        last = self.rnn(series)[0][:, -1]
        y = torch.relu(self.bn1(self.conv1(x)))
        y = torch.relu(self.bn2(self.conv2(y)))
        return self.fc(torch.cat([last, self.gap(y).squeeze(-1)], dim=1))


def test_an_lstm_fcn_of_tsai():
    module, x = TsaiFcn(shuffle=False).eval(), torch.randn(4, D, T)
    model = lrp.from_torch(module, check=x)
    close(model, x.transpose(1, 2).numpy(), scores_of(module, x))


class WeightDropout(nn.Module):
    """fastai's: the weights that are trained are beside the module."""

    def __init__(self, module):
        super().__init__()
        self.module = module
        self.weight_hh_l0_raw = nn.Parameter(module.weight_hh_l0.detach().clone())

    def forward(self, x):
        return self.module(x)


class AwdLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Embedding(20, D, padding_idx=1)
        self.rnns = nn.ModuleList([WeightDropout(nn.LSTM(D, H, batch_first=True)),
                                   WeightDropout(nn.LSTM(H, D, batch_first=True))])  # fmt: skip
        self.decoder = nn.Linear(D, 20)

    def forward(self, ids):
        x = self.encoder(ids)
        for layer in self.rnns:
            x = layer(x)[0]
        return self.decoder(x)


def test_an_awd_lstm_of_fastai(tmp_path):
    module, ids = AwdLstm().eval(), torch.randint(2, 20, (3, T))
    y = scores_of(module, ids)
    close(lrp.from_torch(module, check=ids), ids.numpy(), y)
    torch.save({"model": module.state_dict(), "opt": {}}, tmp_path / "model.pth")
    order = ["encoder", "rnns.0.module", "rnns.1.module", "decoder"]
    close(lrp.load(tmp_path / "model.pth", layers=order, readout="every"), ids.numpy(), y)


def test_an_archive_lists_what_it_holds(tmp_path):
    """Beside policy.pth an agent's archive has its optimizer and variables, which are not networks."""
    with zipfile.ZipFile(tmp_path / "agent.zip", "w") as archive:
        archive.writestr("data", "{}")
    with warnings.catch_warnings(), pytest.raises(lrp.WeightFileError, match="zip archive of a kind that is not known"):
        lrp.load(tmp_path / "agent.zip")
