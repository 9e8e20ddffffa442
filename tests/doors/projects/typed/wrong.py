"""What a user may write by mistake: mypy finds each of these, as the comments say."""

import crypten_ext
import extensions.estimator
import fl
import tfe_ext
from extensions.estimator import PrivateClassifier
from extensions.estimator import PrivateClassifer  # error: attr-defined

crypten_ext.gausian_noise((2, 3), sigma=1.0)  # error: attr-defined
crypten_ext.gaussian_noise((2, 3), sigma="1")  # error: arg-type
crypten_ext.optim.DPSDG  # error: attr-defined
tfe_ext.ABY4()  # error: attr-defined
tfe_ext.keras.Sequental()  # error: attr-defined
tfe_ext.cost(cost=1)  # error: call-arg
fl.MaskedAgregator()  # error: attr-defined
fl.partition(7, 2)  # error: arg-type
fl.MaskedAggregator(round_time=3)  # error: call-arg
fl.models.mlp("64")  # error: arg-type
PrivateClassifier(epsilom=2)  # error: call-arg
PrivateClassifier(epsilon="2")  # error: arg-type
PrivateClassifier(epsilon=2).ft  # error: attr-defined
extensions.estimator.PrivateRegresor  # error: attr-defined
