"""Why is this window an anomaly? The reconstruction error of an autoencoder, explained per step and sensor.

The bundled network has learned to reconstruct windows of three sensors of a pump. What it cannot reconstruct is odd.
The error is also a network, so every method can explain it: which readings caused the error?

Run with: python examples/anomaly.py
"""

import numpy as np

import lrpnumpy as lrp

STEPS, SENSORS = 24, ("pressure", "flow", "temperature")


def windows(rng, count):
    """Usual windows (count, 24, 3): the flow follows the pressure, the temperature is slower."""
    t = np.arange(STEPS)[:, None] / STEPS * 2 * np.pi
    turns, delay, height = np.array([2, 2, 1]), np.array([0, 0.8, 0.4]), np.array([1, 0.8, 0.5])
    phase, size = rng.uniform(0, 2 * np.pi, (count, 1, 1)), rng.uniform(0.7, 1.3, (count, 1, 1))
    clean = size * height * np.sin(turns * (t + phase) - delay)
    return (clean + 0.03 * rng.normal(size=clean.shape)).astype(np.float32)


def main():
    error = lrp.reconstruction_error(lrp.load("pump"))
    rng = np.random.default_rng(5)
    usual = lrp.predict_all(error, windows(rng, 1000))[:, 0]
    window = windows(rng, 1)[0]
    window[10:13, 1] = 1.2  # the flow is too high for three steps
    e = lrp.explain(error, window, "lrp-all")
    print(f"error {e.scores[0]:.2f}; of 1000 usual windows the largest is {usual.max():.2f}")
    print("the readings that caused it:")
    for place in np.argsort(-e.feature_relevance, axis=None)[:5]:
        step, sensor = np.unravel_index(place, e.feature_relevance.shape)
        value, relevance = window[step, sensor], e.feature_relevance[step, sensor]
        print(f"  step {step:2}  {SENSORS[sensor]:11} {value:+.2f}   relevance {relevance:+.2f}")
    shares = e.feature_relevance.sum(axis=0)
    print("by sensor: ", ", ".join(f"{name} {share:+.2f}" for name, share in zip(SENSORS, shares, strict=True)))
    print(f"absorbed by biases: {sum(e.ledger.biases):+.2f}")


if __name__ == "__main__":
    main()
