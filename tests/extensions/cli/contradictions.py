"""What does not go together in a command: its options, and the argument and code of the error."""

BASES = {
    "train": "--backend=clear --parties=2 --steps=2 --noise-multiplier=1 --delta=1e-5",
    "party": "--rank=0 --rendezvous=tcp://127.0.0.1:29511 --world-size=2 --join-timeout=1 "
    "--records=given/own.npz --classes=2 --provider=tfp --steps=2 "
    "--noise-multiplier=1 --delta=1e-5",
    "align": "--records=given/persons.csv --id=id --rank=0 --world-size=2 --key=given/bank.pem "
    "--rendezvous=tls://given/owners.toml --join-timeout=1 --out=aligned.csv",
    "plan": "--records=300 --columns=64 --backend=clear --parties=2 --noise-multiplier=1 "
    "--delta=1e-5",
    "prepare": "--out=material --parties=2 --steps=2 --noise-multiplier=1 --delta=1e-5 "
    "--records=9,9 --held-out=3,3 --columns=4",
    "dealer": "--bind=127.0.0.1:29512 --parties=2 --join-timeout=1",
    "players": "--players=given/players.json",
    "keys": "--name=hospital-a --out=hospital-a.pem",
    "federation": "federation.toml --add=hospital-a --role=party --address=127.0.0.1:7000 "
    "--fingerprint=abababababababababababababababababababababababababababababababab",
    "split": "--out=parts --parties=2",
    "features": "--records=given/own.csv --out=own.npz --label=side --features=raw "
    "--class-names=left,right",
    "budget": "given/own.npz --cap=1 --delta=1e-5",
    "schema": "--from=given/own.csv --target=side",
    "predict": "--shares=given/shares --records=given/own.npz --out=predicted.csv",
    "evaluate": "--shares=given/shares --data-for-party=0=given/own.npz --budget=none",
    "open": "--shares=given/shares --out=opened",
    "export": "--model=given/model.npz --to=npz --out=exported.npz",
    "doctor": "--quick",
    "report": "given/own.npz --html=page.html",
    "fl": "--aggregator=plain --rounds=1 --clients=10 --model=logistic",
}
"""With these options a command would run."""

SHORT = {
    "{central}": "--mechanism=central-dp --delta=1e-5",
    "{record}": "--mechanism=record-dp --record-dp.noise-multiplier=1",
    "{local}": "--mechanism=local-dp --local-dp.epsilon=1",
    "{noise}": "--central-dp.noise-multiplier=1",
    "{players}": "--backend=tfe --parties=3 --players=given/players.json",
    "{share}": "--shares=given/shares/party-0.npz --rank=0 --provider=tfp "
    "--rendezvous=tcp://127.0.0.1:29513",
}

TABLE = {
    "train party": """
evaluate choice --open=each-step --evaluate=opened
init conflict --open=each-step --init=local --epsilon-init=1
private conflict --open=each-step --no-dp !noise-multiplier !delta
method choice --split=columns --method=statistics --loss=least-squares !steps
open choice --split=columns --open=each-step
evaluate choice --split=columns --evaluate=opened
init conflict --split=columns --init=local --epsilon-init=1
sample_rate choice --split=columns --sample-rate=0.2
loss choice --method=statistics
open choice --method=statistics --loss=least-squares !steps --open=each-step
model choice --method=statistics --loss=least-squares !steps --model=mlp:4
loss choice --method=statistics --loss=softmax !steps
init conflict --method=statistics --loss=least-squares !steps --init=random
epsilon+noise_multiplier privacy !noise-multiplier
epsilon+noise_multiplier privacy --epsilon=1
epsilon range !noise-multiplier --epsilon=1e9
epsilon range !noise-multiplier --epsilon=10000.5
epsilon_init range --init=local-average --epsilon-init=1e9
delta range !delta
steps+epochs either --epochs=1
noise_multiplier conflict --no-dp
delta conflict --no-dp !noise-multiplier
epsilon conflict --no-dp !noise-multiplier --epsilon=1 !delta
epsilon_init conflict --no-dp !noise-multiplier --epsilon-init=1 !delta
init conflict --evaluate=noisy --init=local --epsilon-init=1
epsilon_init+noise_multiplier_init privacy --init=local --evaluate=mpc
epsilon_init range !noise-multiplier --epsilon=1 --init=local-average --epsilon-init=1
count_noise value --evaluate=noisy --count-noise=1e-9
count_noise value --evaluate=noisy --count-noise=1e300
init_lr range --init=local --epsilon-init=1 --epsilon=2 !noise-multiplier --init-lr=1e300
noise_multiplier_whiten missing --whiten
noise_multiplier_whiten range --whiten --noise-multiplier-whiten=-1
noise_multiplier_whiten value --whiten --noise-multiplier-whiten=1e300
whiten_ridge missing --whiten --noise-multiplier-whiten=0
whiten_ridge range --whiten --noise-multiplier-whiten=4 --whiten-ridge=0
whiten_share conflict --whiten --noise-multiplier-whiten=4 --whiten-share=0.1
whiten_share range !noise-multiplier --whiten --epsilon=1 --whiten-share=1
noise_multiplier_whiten conflict !noise-multiplier --whiten --epsilon=1 --noise-multiplier-whiten=4
resume needs --resume
max_feature_norm range --max-feature-norm=1e300
dealer_noise conflict --dealer-noise --provider=tfp
dealer_noise conflict --no-dp !noise-multiplier !delta --dealer-noise
dealer_noise conflict --dealer-noise --provider=parties
""",
    "train": """
steps conflict --method=statistics --loss=least-squares --steps=2
sample_rate conflict --method=statistics --loss=least-squares !steps --sample-rate=0.5
lr conflict --method=statistics --loss=least-squares !steps --lr=2
data conflict --data=digits --data-for-party=0=given/own.npz
partition conflict --data-for-party=0=given/own.npz --partition=shards
label choice --data=csv:given/own.csv
text value --data=csv:given/own.csv --label=side --text=side
label choice --data=csv:given/own.csv --label=nothing
text choice --data=csv:given/own.csv --label=side --text=nothing
labels data --data=csv:given/own.csv --label=side --class-names=left,up
records data --data=csv:given/letters.csv --label=side
records data --data=csv:given/missing.csv --label=side
labels value --data=csv:given/one.csv --label=side
records file --data=csv:given/empty.csv --label=side
records file --data=csv:given/header.csv --label=side
records data --data=csv:given/ragged.csv --label=side
records data --data=npz:given/empty.npz
records shape --data=npz:given/wide.npz
records data --data=npz:given/nan.npz
labels data --data=npz:given/halves.npz
labels data --data=npz:given/negative.npz
records file --data=npz:given/lacking.npz
labels value --data=npz:given/one.npz
records file --data=npz:given/own.toml.npz
parties range --parties=2 --data=npz:given/tiny.npz
parties range --backend=crypten --parties=1
parties range --backend=crypten --parties=5 --provider=parties
parties value --backend=tfe --parties=2
provider conflict --backend=tfe --parties=3 --provider=tfp
transport conflict --backend=tfe --parties=3 --transport=gloo
players conflict --backend=crypten --players=given/players.json
provider choice --backend=crypten --provider=tfp --material=given
material conflict --backend=tfe --parties=3 --material=given
dealer_noise conflict --backend=tfe --parties=3 --dealer-noise
parties range --parties=1 --dealer-noise
dealer_noise conflict --insecure-fixed-randomness=3 --dealer-noise
provider conflict --backend=crypten --open=each-step --provider=tfp
material conflict --backend=crypten --open=each-step --material=given
players file --backend=tfe --parties=3 --players=given/own.csv
data conflict {players} --data=digits
own conflict {players} --data-for-party=0=given/own.npz
features conflict {players} --features=hog
max_feature_norm conflict {players} --max-feature-norm=2
seed conflict {players} --seed-data=3
keep conflict {players} --no-feature-cache
budget conflict {players} --budget=none
federation needs {players} --federation=nowhere.toml
key needs {players} --key=nowhere.pem
open value {players} --open=each-step
method value {players} --method=statistics !steps --loss=least-squares
whiten value {players} --whiten --noise-multiplier-whiten=4
material conflict --checkpoint=kept --resume --material=given
checkpoint value --checkpoint=nowhere --resume
every needs --checkpoint-every=2
""",
    "party": """
key missing --rendezvous=tls://nowhere.toml
key file --rendezvous=tls://nowhere.toml --key=given/own.npz
provider conflict --method=statistics --loss=least-squares --steps=2
provider conflict --method=statistics --loss=least-squares !steps --sample-rate=0.5
provider conflict --method=statistics --loss=least-squares !steps --lr=2
classes conflict --class-names=a,b
class_names conflict --class-names=a,b !classes
schema file --schema=nowhere.toml --records=given/own.csv !classes
schema choice --schema=given/own.toml --records=given/own.csv !classes
label choice --records=given/own.csv
text value --records=given/own.csv !classes --class-names=a,b --label=side --text=side
provider choice --material=given/own.npz
provider conflict --open=each-step
dealer conflict --open=each-step --provider=dealer --dealer=127.0.0.1:9
labels data --records=given/halves.npz
labels data --records=given/negative.npz
labels value --records=given/many.npz
dealer+material either --provider=dealer
dealer+material either --provider=dealer --dealer=127.0.0.1:9 --material=nowhere
material file --provider=dealer --material=nowhere
dealer value --provider=dealer --dealer=127.0.0.1:99999
parties range --rank=1 --world-size=1
label choice --records=given/own.csv --label=nothing
weights needs --weights=given/own.npz
""",
    "align": """
key missing !key
rendezvous value !key --rendezvous=tcp://127.0.0.1:29511
rank value --rank=1
world_size range --world-size=1
world_size value --world-size=3
join_timeout value --join-timeout=0
out value --out=aligned.txt
id choice --id=nothing
id data --records=given/twice.csv
id data --records=given/numbers.csv
id value !id --config=given/both.toml
id_format range --id-format=words
id_format range --config=given/formats.toml
id data --id-format=date
pad_to range --pad-to=19
least range --least=-1
most_ids range --most-ids=0
processes range --processes=0
most_alignments range --most-alignments=0
records data --records=given/ragged.csv --id=side
records file --records=given/empty.csv
records file --records=given/nowhere.csv
""",
    "plan": """
method value --method=statistics --loss=least-squares !steps
model value --model=lenet
""",
    "prepare": """
key missing --provider=parties --rank=0
rank range --provider=parties --rendezvous=tcp://127.0.0.1:29511 --rank=2
rank range --provider=parties --rendezvous=tcp://127.0.0.1:29511 --rank=-1
rendezvous value --provider=parties --rendezvous=here --rank=0
key conflict --provider=parties --rendezvous=tcp://127.0.0.1:29511 --rank=0 --key=nowhere.pem
held_out needs !records
records needs !held-out
records needs !columns
data value !records !held-out !columns --data=csv:given/own.csv
data value !records !held-out !columns --data=parquet:nowhere.parquet
data choice !records !held-out !columns --data=iris
records file !records !held-out !columns --data=npz:nowhere.npz
features value !records !held-out !columns --features=nothing
steps+epochs either --epochs=1
noise_multiplier conflict --no-dp
delta range !delta
epsilon+noise_multiplier privacy !noise-multiplier
""",
    "dealer": """
bind+parties either !bind
bind+parties either !parties
key missing !bind !parties --federation=nowhere.toml
runs value !bind !parties --federation=nowhere.toml --key=nowhere.pem --runs=0
key file !bind !parties --federation=nowhere.toml --key=nowhere.pem
""",
    "players": """
players['server0'] value --players=given/ports.json
player missing --players=given/elsewhere.json
players['server1'] value --players=given/elsewhere.json --player=server1
records file --player=server0 --records=given/nowhere.npz --classes=2
records data --player=server0 --records=given/empty.npz --classes=2
records data --player=server0 --records=given/nan.npz --classes=2
records shape --player=server0 --records=given/wide.npz --classes=2
records file --player=server0 --records=given/own.toml --classes=2
classes missing --player=server0 --records=given/own.csv
label choice --player=server0 --records=given/own.csv --class-names=left,right
records data --player=server0 --records=given/letters.csv --class-names=left,right --label=side
classes range --player=server0 --records=given/own.npz --classes=1
label conflict --player=server0 --records=given/own.npz --classes=2 --label=side
weights conflict --player=server0 --records=given/own.npz --classes=2 --weights=given/own.npz
features value --player=server0 --records=given/own.npz --classes=2 --features=nothing
max_feature_norm range --player=server0 --records=given/own.npz --classes=2 --max-feature-norm=0
records file !player --records=given
seed needs --seed-data=3
key file --federation=given/own.toml --key=nowhere.pem
""",
    "keys": """
name+rotate either --rotate=nowhere.pem
name+rotate either !name
rotate file !name --rotate=nowhere.pem
rotate file !name --rotate=given/own.npz
days range --days=0
""",
    "federation": """
fingerprint needs !add
add needs !fingerprint
address conflict --role=client
address value !address
role needs !add !fingerprint
address needs !add !fingerprint !role
federation file !add !fingerprint !role !address
federation file !add !fingerprint !role !address --rotate=nowhere.toml
add conflict --rotate=nowhere.toml
fingerprint needs !add --rotate=nowhere.toml
""",
    "doctor": """
frameworks choice !quick --try=nothing
quick conflict --try=clear
federation needs --federation=given/own.toml
key needs --key=nowhere.pem
key file --federation=given/own.toml --key=nowhere.pem
wait value --wait=0
timeout value --timeout=-1
""",
    "report": """
run file !html
html file --html=page.png
""",
    "split": """
label choice --data=csv:given/own.csv
text value --data=csv:given/own.csv --label=side --text=side
features value --data=csv:given/own.csv --label=side --features=hog:4
records data --data=npz:given/empty.npz
records data --data=npz:given/nan.npz
features value --data=csv:given/words.csv --label=side --text=words
parties range --partition=shards --parties=64 --data=npz:given/tiny.npz
""",
    "features": """
label choice !label
records file --records=nowhere.npz !label !class-names --classes=2
records file --records=given !label !class-names --classes=2
records file --records=given/own.toml !label !class-names --classes=2
records data --records=given/empty.npz !label !class-names --classes=2
records data --records=given/nan.npz !label !class-names --classes=2
records data --records=given/letters.csv
records data --records=given/missing.csv
records data --records=given/ragged.csv
labels data --class-names=a,b
label conflict --schema=nowhere.toml
schema file --schema=nowhere.toml !label !class-names
label conflict --records=given/own.npz
features value --records=given/own.npz !label !class-names --classes=2 --features=hog:4
""",
    "budget": """
delta missing !delta
except_held_out needs !cap --except-held-out
""",
    "schema": """
records data --from=given/ragged.csv
""",
    "predict": """
model file !shares --model=nowhere.npz
model file !shares --model=given
model file !shares --model=given/own.npz
model file !shares --model=given/own.csv
model file !shares --model=given/empty.npz
model+shares either !shares
records+out either !records
records+out either !shares --model=given/model.npz !out
rank+rendezvous either --rank=0 --rendezvous=tcp://127.0.0.1:29513 --provider=tfp
key missing --rank=0
rank+rendezvous either --shares=given/shares/party-0.npz
rank value {share} --rank=-1
rendezvous value {share} --rendezvous=here
rendezvous value {share} --rendezvous=tcp://127.0.0.1:99999
join_timeout value {share} --join-timeout=0
join_timeout value {share} --join-timeout=-1
dealer value {share} --dealer=127.0.0.1:99999
key conflict {share} --key=given/own.npz
""",
    "evaluate": """
records file --data-for-party=0=nowhere.npz
records data --data-for-party=0=given/empty.npz
records shape --data-for-party=0=given/wide.npz
rank value {share} --rank=-1 --records=given/own.npz !data-for-party
rendezvous value {share} --rendezvous=here --records=given/own.npz !data-for-party
rendezvous value {share} --rendezvous=tcp://127.0.0.1:99999 --records=given/own.npz !data-for-party
join_timeout value {share} --records=given/own.npz !data-for-party --join-timeout=0
join_timeout value {share} --records=given/own.npz !data-for-party --join-timeout=-1
dealer value {share} --records=given/own.npz !data-for-party --dealer=127.0.0.1:99999
key conflict {share} --records=given/own.npz !data-for-party --key=given/own.npz
""",
    "open": """
rank value {share} --rank=-1
rendezvous value {share} --rendezvous=here
rendezvous value {share} --rendezvous=tcp://127.0.0.1:99999
join_timeout value {share} --join-timeout=0
join_timeout value {share} --join-timeout=-1
dealer value {share} --dealer=127.0.0.1:99999
key conflict {share} --key=given/own.npz
""",
    "fl": """
exchange choice --server-optimizer=fedadam --exchange=weights
server_optimizer choice --server-optimizer=adam
fedadam.lr range --server-optimizer=fedadam --fedadam.lr=0
fedavgm.momentum range --server-optimizer=fedavgm --fedavgm.momentum=1
fedadam.lr conflict --server-optimizer=fedyogi --fedadam.lr=1
record-dp.noise_multiplier missing --mechanism=record-dp --delta=1e-5
delta missing {record}
local_epochs conflict --local-epochs=3 --delta=1e-5 {record}
record-dp.steps range --record-dp.steps=0 --delta=1e-5 {record}
record-dp.sample_rate range --record-dp.sample-rate=2 --delta=1e-5 {record}
record-dp.max_grad_norm range --record-dp.max-grad-norm=0 --delta=1e-5 {record}
aggregator choice !aggregator
chain.chains range --aggregator=chain --chain.chains=0
clients_of_a_round range --aggregator=chain --chain.chains=100
chain.edges range --aggregator=chain --chain.edges=-1
chain.time_limit range --aggregator=chain --chain.time-limit=0
chain.fixed_point.bits choice --aggregator=chain --chain.fixed-point.bits=16
chain.fixed_point.frac_bits range --aggregator=chain --chain.fixed-point.frac-bits=-1
chain.fixed_point.frac_bits range --aggregator=chain --chain.fixed-point.frac-bits=64
chain.fixed_point.clip range --aggregator=chain --chain.fixed-point.clip=0
chain.fixed_point.saturation choice --aggregator=chain --chain.fixed-point.saturation=wrap
masked.threshold conflict --aggregator=chain --masked.threshold=0.5
masked.threshold range --aggregator=masked --masked.threshold=0
masked.colluders conflict --aggregator=chain --masked.colluders=1
masked.colluders range --aggregator=masked --masked.colluders=-1
colluders range --aggregator=masked --masked.colluders=99
masked.threshold range --aggregator=masked --masked.threshold=1.5
chain.chains conflict --aggregator=masked --chain.chains=1
masked.graph.corrupt conflict --aggregator=chain --masked.graph.corrupt=0.1
masked.graph.corrupt range --aggregator=masked --masked.graph.corrupt=0.5
dropping range --aggregator=masked --masked.graph.dropping=0.4 --client-fraction=1
masked.lanes range --aggregator=masked --masked.lanes=0
masked.lanes range --aggregator=masked --masked.lanes=32
paillier.key_bits range --aggregator=paillier --paillier.key-bits=512
paillier.key_bits range --aggregator=paillier --paillier.key-bits=2047
paillier.packing conflict --paillier.no-packing
paillier.insecure_small_key conflict --paillier.insecure-small-key
paillier.model_range needs --aggregator=paillier --paillier.model-range=8
local-dp.epsilon missing --mechanism=local-dp
local-dp.delta range {local}
local-dp.epsilon range --mechanism=local-dp --local-dp.epsilon=0 --local-dp.delta=1e-5
local-dp.epsilon range --mechanism=local-dp --local-dp.epsilon=1e9 --local-dp.delta=1e-5
epsilon conflict --mechanism=local-dp --epsilon=1 --local-dp.epsilon=1 --local-dp.delta=1e-5
epsilon conflict --epsilon=1
delta conflict --delta=1e-5
delta conflict --mechanism=sign-ds --delta=1e-5
epsilon range --mechanism=central-dp --epsilon=1e9 --delta=1e-5
epsilon range --mechanism=distributed-dp --epsilon=1e9 --delta=1e-5
local-dp.delta range {local} --local-dp.delta=1
local-dp.noise choice {local} --local-dp.noise=cauchy
local-dp.clip range {local} --local-dp.delta=1e-5 --local-dp.clip=0
central-dp.sampling conflict --mechanism=local-dp --central-dp.sampling=fixed
delta missing --mechanism=central-dp
epsilon+noise_multiplier privacy {central}
epsilon+noise_multiplier privacy {central} --epsilon=1 --central-dp.noise-multiplier=1
delta value --mechanism=central-dp --delta=1 --central-dp.noise-multiplier=1
central-dp.noise_multiplier range {central} --central-dp.noise-multiplier=-1
central-dp.sampling choice {central} {noise} --central-dp.sampling=none
central-dp.adaptive.quantile range {central} {noise} --central-dp.adaptive.quantile=2
delta missing --mechanism=distributed-dp
central-dp.sampling conflict --mechanism=distributed-dp --delta=1e-5 --central-dp.sampling=fixed
sign-ds.sign_k range --mechanism=sign-ds --sign-ds.sign-k=0
sign-ds.sign_k range --mechanism=sign-ds --sign-ds.sign-k=2
sign-ds.sign_eps range --mechanism=sign-ds --sign-ds.sign-eps=0
sign-ds.sign_thr_ratio range --mechanism=sign-ds --sign-ds.sign-thr-ratio=2
sign-ds.sign_global_lr range --mechanism=sign-ds --sign-ds.sign-global-lr=0
sign-ds.sign_dim_out range --mechanism=sign-ds --sign-ds.sign-dim-out=-1
alpha range --partition=dirichlet --alpha=0
alpha needs --partition=shards --alpha=1
checkpoint value --resume
checkpoint value --resume --checkpoint=nowhere.pt
records data --data=npz:given/nan.npz
records data --data=npz:given/empty.npz
label choice --data=csv:given/own.csv
""",
}
"""By commands: argument and code of the error, and what is typed beside a base; "!" leaves out."""
