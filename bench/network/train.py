"""Trains the network that compares the picker's candidates, and writes its weights as Rust.

    cargo run --release -p warpipe-bench --example network_data -- target/network.f32
    pip install jax optax
    python3 bench/network/train.py target/network.f32 host/src/gemm/predict/network/weights.rs

It takes two minutes on two cores. Two networks begin with other weights, and the mean of their results is used: it errs less than
each. Each has two hidden layers, and a few numbers for each kernel that are trained with the weights: what the features don't say
of it. A network sees all pairs of a product together, and it is trained to make two numbers small:

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

HEAD = 8  # numbers before the features, see bench/examples/network_data.rs
SEEDS = (1, 3)  # of the members; the six pairs of four differ by up to 0.0005 on held-out shapes
HIDDEN = (64, 32)  # cells of a member's layers
OF_KERNEL = 8  # numbers of a kernel
UNKNOWN = 0.05  # of the pairs are shown without the numbers of their kernel: those of a kernel without records are 0
PAIRS = 48  # most pairs of a product, by predicted time
STEPS = 12000
PRODUCTS = 64  # of a step
RATE = 5e-3  # falls to 0 as a cosine
DECAY = 3e-2
NOISE = 0.1  # added to the features, in standard deviations
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

    first = np.array([p[0, : HEAD - 1] for p in products])
    kernel = padded(lambda p: p[:, HEAD - 1], -1).astype(np.int32)
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
    return (x, kernel), (predicted, slower, there, error, matters), weight, held_out


def network(parameters, told):
    """What a member says of pairs, of which it is told features and the rows of their kernels, or -1."""
    kernels, layers = parameters
    x, kernel = told
    known = (kernel >= 0)[..., None]
    x = jnp.concatenate([x, jnp.where(known, kernels[kernel] - kernels.mean(0), 0)], -1)
    for weights, biases in layers[:-1]:
        x = jax.nn.relu(x @ weights + biases)
    return x @ layers[-1]


def loss(parameters, told, pairs, weight):
    predicted, slower, there, error, matters = pairs
    by = network(parameters, told)
    mean = (by * matters).sum(1, keepdims=True) / matters.sum(1, keepdims=True)
    squares = (matters * (by - mean - error) ** 2).sum(1) / matters.sum(1)
    picked = jax.nn.softmax(jnp.where(there > 0, -(predicted + by) / NEAR, -1e9), axis=1)
    lost = (picked * slower).sum(1)
    return (weight * (SQUARES * squares + lost + FAR * lost**2)).sum() / weight.sum()


def begin(width, kernels, seed):
    """The parameters before any step."""
    *keys, key = jax.random.split(jax.random.PRNGKey(seed), len(HIDDEN) + 2)
    layers, inputs = [], width + OF_KERNEL
    for cells, of in zip(HIDDEN, keys):
        layers.append((jax.random.normal(of, (inputs, cells)) * np.sqrt(2 / inputs), jnp.zeros(cells)))
        inputs = cells
    layers.append(0.1 * jax.random.normal(keys[-1], (inputs,)) * np.sqrt(2 / inputs))
    return 0.1 * jax.random.normal(key, (kernels, OF_KERNEL)), layers


def train(told, kernels, pairs, weight, seed):
    x, kernel = told
    parameters = begin(x.shape[-1], kernels, seed)
    optimiser = optax.adamw(optax.cosine_decay_schedule(RATE, STEPS), weight_decay=DECAY)
    state = optimiser.init(parameters)

    @jax.jit
    def step(parameters, state, x, kernel, pairs, weight, key):
        noise, unknown = jax.random.split(key)
        x = x + NOISE * jax.random.normal(noise, x.shape)
        kernel = jnp.where(jax.random.uniform(unknown, kernel.shape) < UNKNOWN, -1, kernel)
        slope = jax.grad(loss)(parameters, (x, kernel), pairs, weight)
        by, state = optimiser.update(slope, state, parameters)
        return optax.apply_updates(parameters, by), state

    random, key = np.random.default_rng(seed), jax.random.PRNGKey(seed + 1000)
    for _ in range(STEPS):
        of = random.choice(len(x), PRODUCTS)
        key, now = jax.random.split(key)
        batch = [a[of] for a in pairs]
        parameters, state = step(parameters, state, x[of], kernel[of], batch, weight[of], now)
    return jax.tree.map(np.asarray, parameters)


def report(name, members, told, pairs):
    """What the pick of the corrected times loses, among the measured pairs."""
    predicted, slower, there, _, _ = pairs
    near = (there > 0) & (predicted <= np.log(1.12)) & (np.arange(PAIRS) < 12)
    after = sum(np.asarray(network(member, told)) for member in members) / len(members)
    for what, by in (("before", 0 * predicted), ("after", after)):
        at = np.where(near, predicted + by, 99).argmin(1)
        ratio = np.exp(-slower[np.arange(len(at)), at])
        print(
            f"{name}, {what}: {len(at)} shapes; picked {np.exp(np.log(ratio).mean()):.4f} of the fastest, "
            f"least {ratio.min():.3f}, {(ratio < 0.88).sum()} below 0.88, {(ratio < 0.95).sum()} below 0.95"
        )


def rust(members, mean, deviation):
    """The weights as Rust, for features as they are."""

    def number(x):
        text = f"{x:.4g}"
        return text if "." in text or "e" in text else f"{text}.0"

    def row(numbers):
        return "[" + ", ".join(map(number, numbers)) + "]"

    def rows(matrix):
        return "[\n" + "".join(f"{row(numbers)},\n" for numbers in matrix) + "]"

    def layer(weights, biases):
        return f"Layer {{\nbiases: {row(biases)},\nweights: {rows(weights)},\n}}"

    def member(kernels, layers):
        (weights, biases), second, output = layers
        features = len(mean)
        weights = weights.copy()
        weights[:features] /= deviation[:, None]
        biases = biases - mean @ weights[:features]
        return (
            f"Member {{\nkernels: {rows(kernels - kernels.mean(0))},\nfirst: {layer(weights, biases)},\n"
            f"second: {layer(*second)},\noutput: {row(output / len(members))},\n}}"
        )

    return (
        "//! Written by `bench/network/train.py`.\n"
        '#![allow(clippy::approx_constant, reason = "a weight may come near a constant")]\n\n'
        "use super::{Layer, Member};\n\n"
        "/// The networks whose results are added.\n"
        f"pub static MEMBERS: [Member; {len(members)}] = [\n" + "".join(f"{member(*m)},\n" for m in members) + "];\n"
    )


def main():
    if len(sys.argv) != 3:
        raise SystemExit("usage: train.py DATA WEIGHTS.rs, where the example network_data writes DATA")
    (x, kernel), pairs, weight, held_out = read(sys.argv[1])
    there = pairs[2]
    mean, deviation = x[there > 0].mean(0), x[there > 0].std(0) + 1e-3
    scaled = ((x - mean) / deviation * there[..., None]).astype(np.float32)
    fit = held_out == 0

    def of(shapes):
        return (scaled[shapes], kernel[shapes]), [a[shapes] for a in pairs]

    told, fitted = of(fit)
    members = [train(told, kernel.max() + 1, fitted, weight[fit], seed) for seed in SEEDS]
    for name, shapes in (("fitted", fit), ("held out", ~fit)):
        report(name, members, *of(shapes))
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(rust(members, mean, deviation))


if __name__ == "__main__":
    main()
