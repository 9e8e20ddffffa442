"""Three servers of ABY3 train one private classifier on their own digits, in one process.

python examples/aby3_session.py
"""

import numpy as np
from sklearn.datasets import load_digits

import tfe_ext

import tf_encrypted as tfe
from tf_encrypted.keras.layers import Dense

tfe.set_config(tfe_ext.local_config())
tfe.set_protocol(tfe_ext.ABY3(fixedpoint_config="f20"))
x, y = load_digits(return_X_y=True)
x = x / np.linalg.norm(x, axis=1, keepdims=True)
features = {f"server{i}": x[i::3] for i in range(3)}
labels = {f"server{i}": y[i::3] for i in range(3)}

model = tfe_ext.keras.Sequential([Dense(10, batch_input_shape=[1, 64])])
optimizer = tfe_ext.keras.DPSGD(
    learning_rate=10.0, l2_norm_clip=1.0, noise_multiplier=2.4, sample_rate=0.1
)
model.compile(optimizer, tfe_ext.keras.BinaryCrossentropy())
model.fit(features, labels, epochs=3)
print(f"epsilon = {optimizer.get_epsilon(delta=1e-5):.2f}")
