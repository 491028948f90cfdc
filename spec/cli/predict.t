# Messages of `ett predict` and `ett sweep`; specs check the figures.
$ ett predict
ett: predict: needs --model NAME or config.json, --config FILE.yml, or --megatron-args FILE; see `ett predict --help`
?2

$ ett predict llama3-70b dgx_h100 seq=8192
ett: predict: needs --model NAME or config.json, --config FILE.yml, or --megatron-args FILE; did you mean '--model llama3-70b'?
?2

$ ett predict --composition best
ett: predict: unknown composition 'best'; known are default, reference
?2

$ ett predict --composition reference --config nowhere.yml
ett: cannot read 'nowhere.yml': no such file or directory
?1

$ ett predict --model lama layers=4
ett: unknown model 'lama'; did you mean 'llama'?
?2

$ ett predict --model llama layer=32
ett: predict: unknown field 'layer'; did you mean 'layers'?
?2

$ ett predict --model llama devices=8; ett predict --model llama cluster=dgx_h100; ett predict --model llama --cluster dgx_h100,dgx_b200
ett: predict: unknown field 'devices'; a plan has pp x tp x cp x dp devices
ett: predict: unknown field 'cluster'; did you mean '--cluster'?
ett: predict: --cluster takes one cluster; for several, `ett search … --vary cluster=dgx_h100,dgx_b200 --each`
?2

A field that is an option is named only if the command has this option.
$ ett predict --model llama chrome_trace=a; ett predict --model llama objective=days; ett search --model llama objective=days; ett sweep --model llama devices=8; ett compare --model llama devices=8
ett: predict: unknown field 'chrome_trace'; did you mean '--chrome-trace'?
ett: predict: unknown field 'objective'; `ett predict --help llama` lists them
ett: search: unknown field 'objective'; did you mean '--objective'?
ett: sweep: unknown field 'devices'; did you mean '--devices'?
ett: compare: unknown field 'devices'; a plan has pp x tp x cp x dp devices
?2

$ ett predict --model llama3-8b seq=8 micro_batches=1 --cluster a,b.lua; ett compare --model llama --cluster dgx_h100,dgx_b200
ett: cannot read 'a,b.lua': no such file or directory
ett: compare: --cluster takes one cluster; for several, `ett search … --vary cluster=dgx_h100,dgx_b200 --each`
?2

Words of other software are understood in messages.
$ for w in seq_len=8 hidden_size=8 power_cap=400 inference=true nodes=2 checkpoint_interval=600 qqqqqq=8 global-batch=8 --tensor-model-parallel-size=8 --hidden-size=8 gpus=8 --num-gpus=8 --power-limit=400 --qqqqqq; do ett predict --model llama $w; done
ett: predict: unknown field 'seq_len'; did you mean 'seq'?
ett: predict: unknown field 'hidden_size'; did you mean 'hidden'?
ett: predict: unknown field 'power_cap'; power = { device_watts = … } in a cluster file limits the power of a device
ett: predict: unknown field 'inference'; ett predicts training steps, not inference or generation
ett: predict: unknown field 'nodes'; the cluster states the number of devices in a node; a plan has pp x tp x cp x dp devices
ett: predict: unknown field 'checkpoint_interval'; did you mean 'checkpoint_every_seconds'?
ett: predict: unknown field 'qqqqqq'; `ett predict --help llama` lists them
ett: predict: unknown field 'global-batch'; did you mean 'global_batch'?
ett: predict: unknown option '--tensor-model-parallel-size'; fields have no dashes: tp=VALUE
ett: predict: unknown option '--hidden-size'; fields have no dashes: hidden=VALUE
ett: predict: unknown field 'gpus'; a plan has pp x tp x cp x dp devices
ett: predict: unknown option '--num-gpus'; a plan has pp x tp x cp x dp devices
ett: predict: unknown option '--power-limit'; power = { device_watts = … } in a cluster file limits the power of a device
ett: predict: unknown option '--qqqqqq'; `ett predict --help` lists them
?2

$ ett predict --model llama layers=8 hidden=1024 heads=16 vocab=32000 seq=2k micro_batches=4 pp=2 tp=2 dp=2
llama (... M parameters) on 8 x H100-SXM-80GB (dgx_h100)
pp 2, tp 2, dp 2, micro-batch 1 x 4, sequence 2000, bf16, 1f1b, stack plain
...
note: seq = 2000; 2Ki is 2048

$ for c in '' '--cluster perlmutter'; do ett predict --model llama3-8b seq=2048 micro_batches=4 $c | grep -o 'left open.*gradient_dtype fp32'; done
left open   cluster dgx_h100, gradient_dtype fp32
left open   gradient_dtype fp32

$ ett sweep --model llama layers=8 hidden=1024 heads=16 vocab=32000 seq=2048 global_batch=16 pp=1,2 tp=1..4
llama on dgx_h100: 6 plans evaluated, 0 refused, best by step_seconds
...

One step has one value of each field; the message names the commands that take several.
$ M='--model llama layers=8 heads=16 vocab=32000 seq=2048 micro_batches=4'; for w in tp=2,4 dp=8..64..8 tp=1..4 stack=megatron,plain; do ett predict $M hidden=1024 $w; echo $?; done; ett predict $M hidden=1024,2048; ett compare $M hidden=1024 'tp=1,2 zero=1' 'tp=1 dp=2'; ett search $M hidden=1024 --devices 8 --fix tp=1,2
ett: tp=2,4 has several values: `ett sweep` evaluates each of them, `ett search` finds the best
2
ett: dp=8..64..8 has several values: `ett sweep` evaluates each of them, `ett search` finds the best
2
ett: tp=1..4 has several values: `ett sweep` evaluates each of them, `ett search` finds the best
2
ett: stack=megatron,plain has several values: `ett sweep` evaluates each of them, `ett search` finds the best
2
ett: hidden=1024,2048 has several values: `ett sweep` evaluates each of them, `ett search` finds the best
ett: tp=1,2 has several values: `ett sweep` evaluates each of them, `ett search` finds the best
ett: search: --fix tp=1,2 has several values; --vary tp=1,2 searches them
?2

$ for c in predict sweep search; do ett $c --model llama3-8b seq=2048 micro_batches=4 --devices 8,16; done
ett: predict: unknown option '--devices'; a plan has pp x tp x cp x dp devices; `ett search --devices N` finds the best plan of N, `ett search --vary devices=8,16 --each` those of several numbers
ett: sweep: option '--devices' must be a positive integer, got '8,16'; for several: `ett search … --vary devices=8,16 --each`
ett: search: option '--devices' must be a positive integer, got '8,16'; for several: --vary devices=8,16
?2

# A number with an unknown suffix names the known ones.

$ ett predict --model llama3-8b seq=2048 micro_batches=4 dp=8GB; ett sweep --model llama3-8b seq=8k,16kb micro_batches=4
ett: plan: field 'dp' must be a positive integer, got '8GB'; numbers may end in k, M, G or B, T, P (powers of 1000) or Ki, Mi, Gi, Ti (of 1024)
ett: plan: field 'seq' must be a positive integer, got '16kb'; numbers may end in k, M, G or B, T, P (powers of 1000) or Ki, Mi, Gi, Ti (of 1024)
?2

A list is one value, and the path of a file may have commas.
$ ett predict --model llama layers=2 hidden=256 heads=4 vocab=1000 seq=128 micro_batches=2 lora_rank=4 lora_targets=linear_qkv,linear_proj schedule=./a,b.lua
ett: plan: field 'schedule': ...a,b.lua...
?2

Without --cluster every command takes the same one.
$ M='--model llama3-8b seq=2048 zero=1 dp=8 global_batch=8'; S='ett search --model llama3-8b --seq 2048 --global-batch 8 --devices 8 zero=1 tp=1 pp=1'; ett predict $M | grep -o '(dgx_.*)'; ett sweep $M tp=1,2 | grep -o 'on [a-z_0-9]*'; ett compare $M | grep -o 'cluster [a-z_0-9]*'; ett compare $M 'tp=1 cluster=perlmutter' 'tp=1 pp=1' | grep '^cluster'; $S 2>/dev/null | grep -o '(dgx_.*)'
(dgx_h100)
on dgx_h100
cluster dgx_h100
cluster ... perlmutter ... dgx_h100
(dgx_h100)

$ ett run $ETT_ROOT/examples/llemma_7b.lua tp=2 pp=two
ett: llemma_7b.lua...: option 'pp' must be a positive integer, got 'two'
?2

An option that would change nothing is refused.
$ ett predict --model llama --config some.yml
ett: predict: give --config or --model llama, not both
?2

$ ett predict --config some.yml --composition reference --tokens 1e12
ett: predict: --tokens needs --composition default
?2

A cluster is found by its file, its folder or its name. For a file's name without the ending, the message names the file.
$ mkdir -p lab; cp "$ETT_ROOT/clusters/dgx_h100.lua" mine.lua; cp mine.lua lab/init.lua; for c in mine.lua ./lab lab/ mine; do ett predict --cluster $c --model llama hidden=1024 layers=8 heads=8 vocab=32000 seq=1024 micro_batches=4 | head -1; done
llama (...) on 1 x H100-SXM-80GB (...)
llama (...) on 1 x H100-SXM-80GB (...)
llama (...) on 1 x H100-SXM-80GB (...)
ett: unknown cluster 'mine'; to name the file, write mine.lua

$ ett predict --model llama layers=8 hidden=1024 heads=16 vocab=32000 seq=2048 micro_batches=4 dp=2 bucket_bytes=25
ett: plan: field 'bucket_bytes' must be at least 10000 bytes, got 25
?2

$ ett predict --model llama layers=8 hidden=1024 heads=16 vocab=32000 seq=9007199254740993 micro_batches=9007199254740993 tp=1e6
ett: plan: field 'micro_batches' must be at most 16777216, got 9007199254740993; field 'seq' must be at most 16777216, got 9007199254740993; field 'tp' must be at most 16384, got 1000000
?2

# An architecture in ETT_PATH may stand in several files: require finds those under ETT_PATH/lua.

$ mkdir -p mine/lua/architectures mine/lua/parts
> echo 'return require "parts.layers"' > mine/lua/architectures/twofold.lua
> echo 'local blocks = require "ett.model.blocks"' > mine/lua/parts/layers.lua
> echo 'return function(h) return blocks.decoder(h, table.unpack(blocks.dense_layers(h))) end' >> mine/lua/parts/layers.lua
> ETT_PATH=$PWD/mine ett predict --model twofold layers=8 hidden=1024 heads=16 vocab=32000 seq=2048 micro_batches=4
twofold (... M parameters) on 1 x H100-SXM-80GB (dgx_h100)
...

# A plan that does not fit is priced, and a line says so; --require-fit sets exit status 1.

$ ett predict --model llama layers=80 hidden=8192 heads=64 vocab=32000 seq=4096 micro_batches=1 --require-fit --quiet
...
ett: predict: the plan needs ... GB on its fullest device, which has ... GB; with pp=2 sequence_parallel=true tp=8 it would fit on 16 devices, in ... GB
?1

# Public models and clusters are found by name, in any spelling; `--help NAME` prints their hyper-parameters.

$ ett predict --model Llama_3-8B --cluster h100 seq=8192 tp=8 micro_batches=4 | head -1
llama3-8b (8.03 B parameters) on 8 x H100-SXM-80GB (dgx_h100)

$ ett predict --model llama3-8b --cluster h100 seq=8192 micro_batches=4 layers=2 hidden=1024 heads=8 ffn=512 vocab=1000 | head -1
llama3-8b with ffn=512 heads=8 hidden=1024 layers=2 vocab=1000 (... M parameters) on 1 x H100-SXM-80GB (dgx_h100)

$ ett predict --help llama3-8b | grep -E '^  (ffn|norm) '
  ffn                    width of the MLP (default 14336)
  norm                   one of layer_norm, rms_norm (default rms_norm)

$ ett predict --model llama3-8b --cluster b20 seq=8192 micro_batches=4
ett: unknown cluster 'b20'...
?2

# Hyper-parameters of a config.json can be changed, too.

$ echo '{"model_type":"llama","hidden_size":1024,"num_hidden_layers":8,"num_attention_heads":8,"vocab_size":32000}' > config.json; ett predict --model config.json --cluster h100 layers=4 seq=1024 micro_batches=4 | head -1
llama (config.json) with layers=4 (... M parameters) on 1 x H100-SXM-80GB (dgx_h100)

$ echo '{"model_type":"t5","d_model":512,"num_layers":6,"num_heads":8,"d_ff":2048,"d_kv":64,"vocab_size":32128}' > t5.json; ett predict --model t5.json --cluster h100 encoder_seq=512 seq=128 micro_batches=4 | head -1
t5 (t5.json) with encoder_seq=512 (60.5... M parameters) on 1 x H100-SXM-80GB (dgx_h100)

$ echo '{"model_type":"t5","d_model":512,"num_layers":6,"num_heads":8,"vocab_size":32128}' > t5.json; ett predict --model t5.json --cluster h100 encoder_sec=512 seq=128 micro_batches=4
ett: predict: unknown field 'encoder_sec'; did you mean 'encoder_seq'?
?2

# The step as a trace that `ett trace` reads, and as a page. Both make their folder.

$ ett predict --model llama3-8b --cluster h100 seq=8192 pp=2 micro_batches=4 layers=4 --chrome-trace new/run/ --html new/page.html --quiet > seconds && ls -d new/* new/run/* && ett trace new/run iter_time --quiet | grep -c avg_iter_time_ms
new/page.html
new/run
new/run/step.json
new/run/workload_card.yaml
1

Standard error names written files, whose missing folders are made.
$ W='--model llama3-8b seq=8192 micro_batches=4 layers=4'; ett predict $W --chrome-trace a/b/step.json --html a/p.html >new.out; ett search --model llama3-8b layers=2 --devices 1 --global-batch 1 --seq 512 --html c/s.html 2>&1 >new.out | grep wrote; find a c -type f | sort
wrote a/b/step.json
wrote a/p.html
wrote c/s.html
a/b/step.json
a/p.html
c/s.html

$ ett predict --model llama3-8b --cluster h100 seq=8192 pp=2 micro_batches=4 layers=4 --chakra new/et --quiet > seconds && ls new/et
comm_groups.json
step.0.et
step.1.et

$ ett predict --model llama3-8b --cluster h100 seq=8192 micro_batches=4 layers=4 --chrome-trace /dev/null/x.json
ett: cannot ...
?1

# Flags of Megatron-LM in, a plan out.

$ echo '--num-layers 4 --hidden-size 1024 --num-attention-heads 8 --seq-length 1024 --vocab-size 32000 --max-position-embeddings 1024 --bf16 --frob 1 --lr 1' > flags.txt; ett predict --megatron-args flags.txt dp=2 global_batch=16 | grep -E '^(flags|pp|note|warning)'
flags.txt (... M parameters) on 2 x H100-SXM-80GB (dgx_h100)
pp 1, tp 1, dp 2, micro-batch 1 x 8, sequence 1024, bf16, 1f1b, stack megatron:cross_entropy=megatron
note: unknown flags, ignored: --frob
note: 1 flag has no effect on the step
note: not in the file: --micro-batch-size (1)
note: the device waits 71 % of the step until the host launches kernels: CUDA graphs (fields graphs and graphed of a stack) or larger micro-batches shorten this time

$ ett predict --model llama hidden=1024 layers=4 heads=8 vocab=1000 seq=128 micro_batches=4 dp=2 stack=megatron:graphs:norm=torch | grep -E '^pp'
pp 1, tp 1, dp 2, micro-batch 1 x 4, sequence 128, bf16, 1f1b, stack megatron:graphs:norm=torch

$ ett predict --model llama hidden=1024 layers=4 heads=8 vocab=1000 seq=128 micro_batches=4 dp=2 stack=megatron:norms=torch
ett: plan: stack 'megatron:norms=torch': unknown field 'norms'; did you mean 'norm'?
?2

$ ett predict --megatron-args flags.txt --config a.yml
ett: predict: give --megatron-args or --config, not both
?2

$ ett predict --megatron-args flags.txt --plan a.json --model llama
ett: predict: give --megatron-args or --plan, not both; --plan reads launch scripts, too
?2

A trainer's default without an effect has no warning; a word has one.
$ echo '{ "train_micro_batch_size_per_gpu": 1, "zero_optimization": { "stage": 1 } }' > ds.json; for c in '' clip_gradients=false; do ett predict --model llama3-8b --plan ds.json dp=8 seq=512 dtype=bf16 $c | grep ^warning; done
warning: clip_gradients has no effect: it needs pp above 1

Fields behind a recipe make the plan; --model names the model of the recipe.
$ echo 'torchrun --nproc_per_node 8 run.py --recipe llama3_8b_config model.tensor_model_parallel_size=4 dataset.sequence_length=4096 train.global_batch_size=16' > run.sh; ett predict --megatron-args run.sh; ett predict --megatron-args run.sh --model llama3-8b cp=2 | grep -E '^pp|note: the file'
ett: run.sh: missing --num-layers, --hidden-size, --num-attention-heads; a recipe holds them: give its model, --model NAME
pp 1, tp 4, dp 1, cp 2, micro-batch 1 x 16, sequence 4096, bf16, 1f1b, stack megatron
note: the file does not hold the recipe's own settings: bf16 and Megatron-LM's defaults stand for those that it does not state

$ ett predict --megatron-args nowhere.sh
ett: cannot read 'nowhere.sh': no such file or directory
?1

$ ett predict --model llama3-8b --cluster h100 seq=8192 tp=8 micro_batches=4 --export megatron | grep -E 'layers|tensor|devices'
ett: note: the plan names no stack, so its time has no launch costs; try stack=megatron
--num-layers 32
--tensor-model-parallel-size 8
# ett: 8 devices, no stack

$ ett predict --model llama3-8b --cluster h100 seq=8192 tp=8 micro_batches=4 --export megatorn
ett: predict: option '--export' must be one of deepspeed, megatron, torchtitan, got 'megatorn'; did you mean 'megatron'?
?2

# Ranks and tiers: an order, and a network of three levels with the user's model of communication.

$ ett predict --model llama layers=8 hidden=1024 heads=16 vocab=32000 seq=2048 micro_batches=4 dp=2 pp=2 rank_order=pp-dp --json | grep rank_order
    "rank_order": "tp-cp-ep-pp-dp",

$ mkdir -p own/lua/collectives; echo 'return { name = "flat", summary = "all at once", kinds = { "all_reduce" }, seconds = function(r) return 1e-5 + r.bytes / r.tiers[3].bandwidth end }' > own/lua/collectives/flat.lua
> echo 'return { name = "pods", summary = "three tiers", source = "me", device = "h100_sxm", collectives = "flat", tiers = { { name = "node", size = 8, bandwidth = 4e11, source = "me" }, { name = "leaf", size = 32, bandwidth = 5e10, source = "me" }, { name = "spine", bandwidth = 5e10, oversubscription = 4, source = "me" } } }' > own/pods.lua
> ett predict --path own --cluster own/pods.lua --model llama layers=8 hidden=1024 heads=16 vocab=32000 seq=2048 micro_batches=4 dp=64 | grep all_reduce
> ett list --path own collectives | grep flat
> sed -i 's/1e-5 + /-/' own/lua/collectives/flat.lua
> ett predict --path own --cluster own/pods.lua --model llama layers=8 hidden=1024 heads=16 vocab=32000 seq=2048 micro_batches=4 dp=64
  all_reduce (dp) ... assumed (flat, links of spine)
  flat ...all at once
ett: flat.lua:1: collective 'flat': seconds must return a number of at least 0, or nil, got -...
?1

The message for an option of another command names that command.
$ ett predict --model llama3-70b --cluster h100 --devices 256
ett: predict: unknown option '--devices'; a plan has pp x tp x cp x dp devices; `ett search --devices N` finds the best plan of N, `ett search --vary devices=8,16 --each` those of several numbers
?2

# The days of a run say when they leave out failures.

$ ett predict --model llama3-8b --cluster dgx_h100 seq=8192 tp=8 micro_batches=4 --tokens 1e6 | grep -A1 '^run'
run         1 M tokens in 0.0015... days [0.0012..., 0.0029...] at 90 % (31 steps)
            USD ..., 0.0003... MWh [0.0002..., 0.0006...], 0.0001... t CO2

$ for c in dgx_h100 dgx_b200; do ett predict --model llama3-8b --cluster $c seq=8192 tp=8 micro_batches=4 --tokens 1e9 | grep -A1 '^run'; done
run         1 B tokens in 0.23 days [0.18, 0.42] at 90 % (30518 steps)
            USD 299.07 [242.05, 556.99], 0.05712 MWh [0.043, 0.0903], 0.0274 t CO2
run         1 B tokens in ... days without failures [0.12, 0.28] at 90 % (30518 steps)
            USD ..., ... MWh [..., ...], ... t CO2

# A cheap step shows its price.
$ ett predict --model gpt2 --cluster dgx_h100 seq=128 micro_batches=1 | grep ^cost
cost        USD 0.00000... per step, ... per billion tokens (6.88 per device hour)

# A sample of a shape is used although its table is too small for a fit.

$ mkdir few; printf 'tokens,width,F_dur(us),B_dur(us)\n512,1024,884,1183\n' > few/MYCPU_gelu_fp32.csv; printf 'return { name = "few", summary = "x", source = "x", gpus_per_node = 1, device = { name = "MYCPU", source = "x", peak_flops = { fp32 = 7e10 }, memory_bandwidth = 1.5e10, memory_bytes = 1e10 }, links = { intra = { bandwidth = 1e9, source = "x" } }, profile = "few" }' > few.lua; for s in 512 1024; do ett predict --cluster few.lua --model gpt layers=4 hidden=256 heads=4 vocab=4000 seq=$s micro_batches=1 dtype=fp32 | grep ' gelu '; done
  gelu                    8.268   ... measured
  gelu                    ... assumed
warning: no samples of ...; gelu has samples of 1 shape, and other shapes need a fit, from at least 8

Files of the current folder are not searched; the message of an unknown name says how to find them.
$ for kind in operator stack schedule; do echo 'return {}' > "my_$kind.lua"; done; W='--model llama layers=2 hidden=256 heads=4 vocab=1000 seq=128 micro_batches=2'; ett predict $W encoder_function_list=rms_norm,my_operator; ett predict $W stack=my_stack schedule=my_schedule; ett predict $W stack=my_stacks
ett: llama: encoder_function_list: entry 2: unknown operator 'my_operator'; `--path .` finds my_operator.lua
ett: plan: field 'schedule': unknown schedule 'my_schedule'; `--path .` finds my_schedule.lua; field 'stack': unknown stack 'my_stack'; `--path .` finds my_stack.lua
ett: plan: field 'stack': unknown stack 'my_stacks'; known are ...
?2

# Price and energy are those of the devices in use; a part of one node is often sold alone.
$ for d in 4 8 12 16; do ett predict --model llama2-7b --cluster dgx_h100 seq=512 dp=$d micro_batches=4 | grep '^note'; done
note: price and energy are of 12 of the 16 devices of 2 nodes, which may be billed and powered whole
?1

$ for c in dgx_b200 aws_p4d; do ett predict --model llama2-7b --cluster $c seq=512 dp=9 micro_batches=4 | grep '^note'; done
note: price and energy are of 9 of the 16 devices of 2 nodes, which may be billed and powered whole
note: the energy is of 9 of the 16 devices of 2 nodes, which may be billed and powered whole

Tokens given twice name the command.
$ ett predict --model llama3-8b seq=8192 micro_batches=1 --tokens 1T tokens=2T
ett: predict: tokens = 1e+12 contradicts the plan's tokens = 2e+12; give one of them
?2

A range has two dots; the message names the field. Several clusters are a search.
$ M='--model llama3-8b seq=8192 global_batch=8'; ett predict $M tp=1-4; ett sweep $M tp=1-4; ett sweep $M pp=1,2 cluster=dgx_h100,dgx_b200; ett sweep llama3-8b tp=1,2; ett search llama3-8b
ett: plan: field 'tp' must be a positive integer, got '1-4'; `ett sweep` and `ett search` take a range, 1..4
ett: plan: field 'tp' must be a positive integer, got '1-4'; a range is 1..4
ett: sweep: unknown field 'cluster'; for several, `ett search … --vary cluster=dgx_h100,dgx_b200 --each`
ett: sweep: needs --model NAME or config.json; did you mean '--model llama3-8b'?
ett: search: needs --model NAME or config.json; did you mean '--model llama3-8b'?
?2

Names of other software mean a value, or a back end.
$ ett predict --model llama3-8b seq=8192 fsdp=8; ett predict --model llama3-8b --fsdp 8; ett sample cpu_30s --backend gpu; ett cluster init x --backend nvidia
ett: predict: unknown field 'fsdp'; did you mean 'zero=3'?
ett: predict: unknown option '--fsdp'; fields have no dashes: zero=3
ett: unknown back end 'gpu'; did you mean 'cuda'?; known are cpu, cuda, mpi, nccl, torch
ett: cluster: option '--backend' must be one of cpu, cuda, got 'nvidia'; did you mean 'cuda'?
?2
