"""Three servers of ABY3 and alice train one private classifier on their own digits, in one process.

python examples/aby3_session.py
"""

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

import tfe_ext

import tf_encrypted as tfe
from tf_encrypted.keras.layers import Dense

tfe.set_config(tfe_ext.local_config("alice"))
tfe.set_protocol(tfe_ext.ABY3(fixedpoint_config="f20"))
x, y = load_digits(return_X_y=True)
x = x / np.linalg.norm(x, axis=1, keepdims=True)
features = {f"server{i}": x[i::5] for i in range(3)}
labels = {f"server{i}": y[i::5] for i in range(3)}
held_out = {"alice": x[4::5]}, {"alice": y[4::5]}

with tfe_ext.owned_by("alice"):  # read there, and stays there
    features["alice"] = tf.data.Dataset.from_tensor_slices((x[3::5], y[3::5])).batch(32)

schedule = tf.keras.optimizers.schedules.ExponentialDecay(10.0, decay_steps=10, decay_rate=0.9)
model = tfe_ext.keras.Sequential([Dense(10, batch_input_shape=[1, 64])])
optimizer = tfe_ext.keras.DPSGD(
    learning_rate=schedule, l2_norm_clip=1.0, noise_multiplier=2.4, sample_rate=0.1
)
model.compile(optimizer, tfe_ext.keras.BinaryCrossentropy())
history = model.fit(features, labels, epochs=3, validation_data=held_out, count_noise=5.0)
print(history.history["val_accuracy"], history.history["rounds"], history.history["bytes"])
print(f"epsilon = {optimizer.get_epsilon(delta=1e-5):.2f}")
