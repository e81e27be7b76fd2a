"""Trains the network that compares the picker's candidates, and writes its weights as Rust.

    cargo run --release -p warpipe-bench --example network_data -- target/network.f32
    pip install jax optax
    python3 bench/network/train.py target/network.f32 host/src/gemm/predict/network/weights.rs
    cargo fmt

It takes a minute on two cores. Two networks with one hidden layer begin with other weights, and the mean of the two is written as
one: it errs less than each (on the data of 2026-11-27, 0.986 of the fastest on held-out shapes, 0.9845 each). A network sees all pairs of a product
together, and it is trained to make two numbers small:

- what the pick loses: the mean of ln(time / fastest time) over the pairs, with weights that fall off as the corrected time rises
  above the shortest one (a softmax);
- the square of what is left of ln(measured / predicted time), apart from a constant that all pairs of a product have.

Shapes that are held out take no part. The weights of the others are those of the fit of the constants
(bench/examples/fit_predictions.rs).
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

HEAD = 7  # numbers before the features, see bench/examples/network_data.rs
SEEDS = (2004, 2006)  # of the members; the 28 pairs of eight differ by up to 0.0010 on held-out shapes
HIDDEN = 48  # cells of a member
PAIRS = 48  # most pairs of a product, by predicted time
STEPS = 8000
PRODUCTS = 64  # of a step
RATE = 1e-2  # falls to 0 as a cosine
DECAY = 1e-2
NOISE = 0.05  # added to the features, in standard deviations
NEAR = 0.03  # ln(time / shortest) at which a pair's weight in the pick falls off by e
MATTERS = 0.08  # the same for its weight in the squares
SQUARES = 50.0  # weight of the squares
FAR = 3.0  # a shape that loses much counts more than several that lose little


def read(path):
    """Arrays with a row for each product: features, and numbers of its pairs and of itself."""
    numbers = np.fromfile(path, dtype="<f4")
    rows = numbers[1:].reshape(-1, int(numbers[0]))
    products = [rows[rows[:, 0] == at] for at in np.unique(rows[:, 0])]
    products = [p[np.argsort(p[:, 4], kind="stable")][:PAIRS] for p in products]

    def padded(column, empty):
        out = np.full((len(products), PAIRS), empty, np.float32)
        for to, p in zip(out, products):
            to[: len(p)] = column(p)
        return out

    first = np.array([p[0, :HEAD] for p in products])
    x = np.zeros((len(products), PAIRS, rows.shape[1] - HEAD), np.float32)
    for to, p in zip(x, products):
        to[: len(p)] = p[:, HEAD:]
    there = padded(lambda p: 1, 0)
    predicted = padded(lambda p: np.log(p[:, 4] / p[0, 4]), 50)
    slower = padded(lambda p: np.log(p[:, 3] / p[:, 5]), 0)
    error = padded(lambda p: np.log(p[:, 3] / p[:, 4]), 0)
    matters = there * np.exp(-predicted / MATTERS)
    mean = (matters * error).sum(1) / matters.sum(1)
    error = np.clip(error - mean[:, None], -0.3, 0.3) * there
    _, held_out, suite, _, _, fastest, cublaslt = first.T
    weight = np.where(suite == 2, 12, np.where(suite == 1, 4, np.where(fastest > 200, 0.4, 1)))
    close = (cublaslt > 0) & (cublaslt < 1.06 * fastest) & (suite != 2)
    weight = weight * np.where(close, 3, 1)
    return x, (predicted, slower, there, error, matters), weight, held_out


def network(parameters, x):
    (weights, biases), output = parameters
    return jax.nn.relu(x @ weights + biases) @ output


def loss(parameters, x, pairs, weight):
    predicted, slower, there, error, matters = pairs
    by = network(parameters, x)
    mean = (by * matters).sum(1, keepdims=True) / matters.sum(1, keepdims=True)
    squares = (matters * (by - mean - error) ** 2).sum(1) / matters.sum(1)
    picked = jax.nn.softmax(jnp.where(there > 0, -(predicted + by) / NEAR, -1e9), axis=1)
    lost = (picked * slower).sum(1)
    return (weight * (SQUARES * squares + lost + FAR * lost**2)).sum() / weight.sum()


def train(x, pairs, weight, seed):
    key = jax.random.PRNGKey(seed)
    one, two, key = jax.random.split(key, 3)
    width = x.shape[-1]
    hidden = jax.random.normal(one, (width, HIDDEN)) * np.sqrt(2 / width)
    output = jax.random.normal(two, (HIDDEN,)) * 0.1 * np.sqrt(2 / HIDDEN)
    parameters = ((hidden, jnp.zeros(HIDDEN)), output)
    optimiser = optax.adamw(optax.cosine_decay_schedule(RATE, STEPS), weight_decay=DECAY)
    state = optimiser.init(parameters)

    @jax.jit
    def step(parameters, state, x, pairs, weight, key):
        x = x + NOISE * jax.random.normal(key, x.shape)
        slope = jax.grad(loss)(parameters, x, pairs, weight)
        by, state = optimiser.update(slope, state, parameters)
        return optax.apply_updates(parameters, by), state

    random = np.random.default_rng(0)
    for _ in range(STEPS):
        of = random.choice(len(x), PRODUCTS)
        key, noise = jax.random.split(key)
        batch = [a[of] for a in pairs]
        parameters, state = step(parameters, state, x[of], batch, weight[of], noise)
    return parameters


def mean_of(members):
    """The network that computes the mean of several."""
    hidden = [np.concatenate(parts, axis=-1) for parts in zip(*(hidden for hidden, _ in members))]
    return hidden, np.concatenate([output for _, output in members]) / len(members)


def report(name, parameters, x, pairs):
    """What the pick of the corrected times loses, among the measured pairs."""
    predicted, slower, there, _, _ = pairs
    near = (there > 0) & (predicted <= np.log(1.12)) & (np.arange(PAIRS) < 12)
    for what, by in (("before", 0 * predicted), ("after", np.asarray(network(parameters, x)))):
        at = np.where(near, predicted + by, 99).argmin(1)
        ratio = np.exp(-slower[np.arange(len(at)), at])
        print(
            f"{name}, {what}: {len(at)} shapes; picked {np.exp(np.log(ratio).mean()):.4f} of the fastest, "
            f"least {ratio.min():.3f}, {(ratio < 0.88).sum()} below 0.88, {(ratio < 0.95).sum()} below 0.95"
        )


def rust(parameters, mean, deviation):
    """The weights as Rust, for features as they are."""
    (weights, biases), output = (jax.tree.map(np.asarray, p) for p in parameters)
    weights = weights / deviation[:, None]
    biases = biases - mean @ weights

    def number(x):
        text = f"{x:.3g}"
        return text if "." in text or "e" in text else f"{text}.0"

    def row(numbers):
        return "[" + ", ".join(map(number, numbers)) + "]"

    return (
        "//! Written by `bench/network/train.py`.\n"
        '#![allow(clippy::approx_constant, reason = "a weight may come near a constant")]\n\n'
        "/// Cells of the hidden layer.\n"
        f"pub const HIDDEN: usize = {len(biases)};\n\n"
        "/// What a cell has without features.\n"
        f"pub const BIASES: [f32; HIDDEN] = {row(biases)};\n\n"
        "/// What the cells add to the result.\n"
        f"pub const OUTPUT: [f32; HIDDEN] = {row(output)};\n\n"
        "/// What a feature adds to each cell.\n"
        f"pub static WEIGHTS: [[f32; HIDDEN]; {len(weights)}] = [\n"
        + "".join(f"    {row(numbers)},\n" for numbers in weights)
        + "];\n"
    )


def main():
    if len(sys.argv) != 3:
        raise SystemExit("usage: train.py DATA WEIGHTS.rs, where the example network_data writes DATA")
    x, pairs, weight, held_out = read(sys.argv[1])
    there = pairs[2]
    mean, deviation = x[there > 0].mean(0), x[there > 0].std(0) + 1e-3
    scaled = ((x - mean) / deviation * there[..., None]).astype(np.float32)
    fit = held_out == 0
    members = [train(scaled[fit], [a[fit] for a in pairs], weight[fit], seed) for seed in SEEDS]
    parameters = mean_of(members)
    for name, of in (("fitted", fit), ("held out", ~fit)):
        report(name, parameters, scaled[of], [a[of] for a in pairs])
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(rust(parameters, mean, deviation))


if __name__ == "__main__":
    main()
