# Messages of `ett search`; spec/search checks its figures.

$ ett search --model llama layers=8 hidden=1024 heads=8 vocab=32000 --cluster dgx_h100 --devices 8 --global-batch 64 --seq 1024
llama: ... layouts, by step_seconds
.
best: ... on 8 x H100-SXM-80GB (dgx_h100), stack plain
  seq=1024 ...
  90 % interval ... MFU ...
  wide: no software is named (stack=)
  no stack is named: kernels are fused and launches take no time. Name the software that will run it: stack=NAME
.
bottleneck: ...
...

A plan that fills the memory says so.
$ for h in 0 0.33; do ett search --model llama3-70b --cluster dgx_h100 --devices 256 --global-batch 256 --seq 8192 tp=4 pp=4 vp=20 schedule=interleaved zero=1 cp=1 stack=megatron --headroom $h 2>&1 | grep -o 'plan fits with a chance.*\|85.8 GB, fits.*\|84.0 of 85.0 GB\|^best:\|fits %'; done
best:
84.0 of 85.0 GB
plan fits with a chance of 42 %. 90 % interval of the memory: 67.2 to 125.1 GB. `ett search --headroom 0.33` finds plans with at least 95 %
fits %
85.8 GB, fits with a chance of 31 %
best:

A node that is not full, and a run.
$ ett search --model llama3-8b --cluster dgx_h100 --devices 12 --global-batch 96 --seq 2048 --tokens 1e9 pp=1 tp=1 cp=1 zero=1 recompute=none schedule=1f1b 2>new.err | grep -E 'last node|tokens in|USD [0-9]'
  1 B tokens in ... days [..., ...] at 90 % (5087 steps)
  USD ...
  the last node is not full: a node has 8 devices. Dollars and energy leave out 4 of them. Compare with 8 devices

$ ett search --model llama layers=8 hidden=1024 heads=8 vocab=32000 --cluster dgx_h100 --devices 8 --global-batch 64 --seq 1024 --where 'tp == 2' --quiet
seq=1024 tp=2 ...

Facts have one name and unit in all commands; a part that is not used is 0.0 % shorter.
$ W='--model llama layers=4 hidden=1024 heads=8 vocab=32000 seq=1024 global_batch=8 tp=1'; ett search ${W% seq*} --seq 1024 --global-batch 8 tp=1 --devices 2 --tokens 1e9 --json 2>new.err >s; ett predict $W dp=2 tokens=1e9 --json >p; ett sweep $W dp=1,2 tokens=1e9 --json >w; ett compare $W dp=1 dp=2 tokens=1e9 --json >c; for k in run_days run_dollars; do for f in s p w c; do grep -c "\b$k\b" $f | sed 's/[1-9].*/some/'; done; done | sort | uniq -c | tr -s ' '; grep -hE '"(price_per_step|price_per_billion_tokens|run_price|run_seconds|days|dollars|mfu|gain|parts)"' s p w c; grep -A1 '"model": {' s w | grep -c '"name": "llama"'; ett search ${W% seq*} --seq 1024 --global-batch 8 tp=1 --devices 2 2>new.err | grep -c -e '-0.0 % shorter'
 8 some
2
0
?1

Empty lists are lists, also in the estimate of the best plan.
$ ett search --model llama layers=4 hidden=1024 heads=8 vocab=32000 --devices 1 --global-batch 8 --seq 1024 --json 2>new.err | grep -e '{}' -e '\[\]' | LC_ALL=C sort -u
      "collectives": [],
      "notes": [],
      "warnings": [],

If clusters vary, the words name the best plan's cluster, and `ett predict` gives the step of the search.
$ M="--model llama layers=4 hidden=1024 heads=8 vocab=32000"; S="$M --devices 4 --global-batch 8 --seq 1024 tp=1 pp=1 zero=1"; ett search $S --vary cluster=dgx_h100,dgx_b200 --quiet | tee w; ett search $S --cluster dgx_b200 --json 2>new.err | grep -m1 -o '"step_seconds": [0-9.e-]*' | cut -d' ' -f2 | xargs printf '%.15g\n' > a; ett predict $M $(cat w) --quiet | xargs printf '%.15g\n' > b; cmp a b; ett search $S --vary cluster=dgx_h100,dgx_b200 --export megatron 2>new.err | head -1; ett search $S --cluster dgx_b200 --quiet
--cluster dgx_b200 seq=1024 ...
# not stated here: cluster = dgx_b200
seq=1024 ...

$ ett search --model llama layers=8 hidden=1024 heads=8 vocab=32000 --devices 8 --global-batch 64 --seq 1024 --where 'tq == 2'
ett: search: where 'tq == 2': unknown name 'tq' at character 1; did you mean 'tp'?
?2

$ ett search --model llama layers=8 hidden=1024 heads=8 vocab=32000 --devices 8 --global-batch 64 --seq 1024 --where 'nil + 1'
ett: search: where 'nil + 1': attempt to perform arithmetic on a nil value
?2

$ ett search --model llama layers=8 hidden=1024 heads=8 vocab=32000 --devices 8 --global-batch 64 --seq 1024 --fix tp
ett: search: --fix must be FIELD=VALUE, got 'tp'
?2

$ ett search --model llama layers=8 hidden=1024 heads=8 vocab=32000 --devices 8 --global-batch 64 --seq 1024 --fix tp=3
ett: search: no layout: tp = 3 on 8 devices: tp * cp * pp * dp must equal the number of devices; the nearest numbers are 6 and 9; the fastest plan without tp: seq=1024 ...
?1

$ ett search --model llama layers=8 hidden=1024 heads=8 vocab=32000 --devices 8 --global-batch 64 --seq 1024 --tokens 1e12 --days 0.01
ett: search: no plan meets the limit of days, 0.01; the least is ... days: seq=1024 ...
?1

$ ett search --model llama layers=8 hidden=1024 heads=8 vocab=32000 --devices 8 --global-batch 64 --seq 1024 --fix tp=1 --vary tp=1,2
ett: search: field 'tp' is both fixed and varied
?2

$ ett search --model llama layers=8 hidden=1024 heads=8 vocab=32000 --devices 8 --vary devices=4,8 --global-batch 64 --seq 1024
ett: search: 'devices' is both given and varied
?2

$ ett search --model llama layers=8 hidden=1024 heads=8 vocab=32000 --devices 8 --cluster dgx_a100 --vary cluster=dgx_h100 --global-batch 64 --seq 1024
ett: search: 'cluster' is both given and varied
?2

$ ett search --model llama layers=8 hidden=1024 heads=8 vocab=32000 --devices 8 --global-batch 64 --seq 1024 tp=1 --fix tp=2
ett: search: field 'tp' is given twice
?2

$ ett search --model llama layers=8 hidden=1024 heads=8 vocab=32000 --devices 8 --global-batch 64 --seq 1024 tp=1,2,1
ett: search: tp=1,2,1 has the value 1 twice
?2

$ ett search --model llama layers=8 hidden=1024 heads=8 vocab=32000 --devices 8 --global-batch 64 --seq 1024 --objective dollars,dollars
ett: search: option '--objective' must be names separated by commas, each once, got 'dollars,dollars'
?2

$ ett search --model llama layers=8 hidden=1024 heads=8 vocab=32000 --devices 8 --global-batch 64 --seq 1024 --json --csv
ett: search: give --json or --csv, not both
?2

# The best plan as a trainer's configuration.

$ ett search --model llama3-8b --cluster h100 --devices 8 --global-batch 8 --seq 2048 --export megatron | grep -E 'layers|devices|global'
ett: note: the plan names no stack, so its time has no launch costs; try stack=megatron
--num-layers 32
--global-batch-size 8
# ett: 8 devices, no stack

$ ett search --model llama layers=4 hidden=1024 heads=8 vocab=32000 --devices 4 --global-batch 8 --seq 1024 --where 'zero == 0' --html new/search.html --quiet && ls new
seq=1024 ...
search.html

# A page that cannot be written loses no result.

$ ett search --model llama layers=4 hidden=1024 heads=8 vocab=32000 --devices 4 --global-batch 8 --seq 1024 --where 'zero == 0' --html /dev/full --quiet
seq=1024 ...
ett: cannot write '/dev/full': no space left on device
?1

A script that searches is a job as a campaign is.
$ echo 'return ett.search { model = ett.model.new "llama3-8b" }' > s.lua; ett submit s.lua --nodes 2 --ranks 4 --print | grep -e job-name -e srun.*ett
#SBATCH --job-name=ett-search
srun --kill-on-bad-exit=1 --mpi=pmix ...bin/ett run s.lua

# If a cluster states no rate of failures, days leave them out, and a line says so.

$ ett search --model llama3-8b --vary cluster=dgx_h100,dgx_b200 --devices 8 --global-batch 8 --seq 2048 --tokens 1e9 --each tp=8 pp=1 zero=1 2>new.err | grep -e '^days' -e '^ *cluster' -e '^dgx'
 cluster ...  days  failures  ...USD ...
dgx_b200 ...  0.10   ignored ...
dgx_h100 ...  0.16   counted ...
days without failures: dgx_b200; failures_per_device_day=N sets their rate

$ ett search --model llama3-8b --cluster dgx_b200 --devices 8 --global-batch 8 --seq 2048 --tokens 1e9 tp=8 pp=1 zero=1 failures_per_device_day=1e-3 2>new.err | grep -c -e 'days without' -e counted
0
?1

# Fields that are lists have one value. The words of the best plan hold them, and `ett predict` gives the same step.

$ M="--model llama layers=8 hidden=1024 heads=8 vocab=32000"; S="$M --devices 4 --global-batch 8 --seq 1024 pp=2 tp=1 split=3,5 recompute_modules=core_attn,mlp"; ett search $S --quiet | tee w; ett search $S --json 2>new.err | grep -m1 -o '"step_seconds": [0-9.e-]*' | cut -d' ' -f2 > a; ett predict $M --cluster dgx_h100 $(cat w) --quiet > b; cmp a b
seq=1024 ... recompute_modules=core_attn,mlp ... recompute=selective ... split=3,5

$ ett sweep --model llama layers=8 hidden=1024 heads=8 vocab=32000 seq=1024 pp=2 dp=1,2 micro_batches=2 split=3,5 --quiet >new.s; ett search --model llama layers=8 hidden=1024 heads=8 vocab=32000 --devices 4 --global-batch 8 --seq 1024 recompute=full recompute_modules=core_attn
ett: search: no layout: each one violates a rule; the first violation: recompute_modules needs recompute = 'selective', got 'full'; the fastest plan without recompute: seq=1024 micro_batch=2 recompute_modules=core_attn dp=4 recompute=selective zero=2 global_batch=8 overlap_gradients=true overlap_parameters=true
?1

# A launch script gives the model, the batch, the precision, the stack and the number of devices; its degrees are searched.

$ echo '--num-layers 8 --hidden-size 1024 --num-attention-heads 16 --vocab-size 32000 --seq-length 2048 --fp16 --micro-batch-size 2 --global-batch-size 32 --tensor-model-parallel-size 4 --nnodes 1 --nproc-per-node 8' > flags; ett search --megatron-args flags --json 2>/dev/null > best; for f in devices fits; do grep -c "\"$f\": [8t]" best | sed 's/[1-9].*/some/'; done; ett search --megatron-args flags --quiet 2>/dev/null; ett search --megatron-args flags --export megatron 2>/dev/null > again; ett predict --megatron-args again --quiet > s; ett search --megatron-args flags --json 2>/dev/null | grep -c "\"step_seconds\": $(cut -c1-12 s)" | sed 's/[1-9].*/the same step/'; ett search --megatron-args flags --vary devices=4,8 --each tp=1,2 --seq 1024 2>/dev/null | sed -n 1p
some
some
seq=2048 ...dtype=fp16... stack=megatron... global_batch=32...
the same step
flags: ... layouts, by step_seconds

The best plan has the notes of its file.
$ echo '--num-layers 8 --hidden-size 1024 --num-attention-heads 16 --vocab-size 32000 --seq-length 2048 --nproc-per-node 2 --frob 1' > flags; ett search --megatron-args flags 2>/dev/null | grep note; ett search --megatron-args flags --devices 4 --global-batch 8 dtype=bf16 2>/dev/null | grep note
  note: unknown flags, ignored: --frob
  note: position: learned positions need max_positions; without it their table is not counted
  note: not in the file: --global-batch-size (one micro-batch for each replica), --nnodes (1), --bf16 and --fp16 (fp32; if another file sets bf16, give dtype=bf16)
  note: unknown flags, ignored: --frob
  note: position: learned positions need max_positions; without it their table is not counted
  note: the device waits 40 % of the step until the host launches kernels: CUDA graphs (fields graphs and graphed of a stack) or larger micro-batches shorten this time

$ ett search --megatron-args nosuch
ett: cannot read 'nosuch': ...
?1

# A recipe does not state its model.

$ echo 'torchrun --nproc_per_node 8 run.py --recipe llama3_8b_config dataset.sequence_length=512 train.global_batch_size=8 peft=lora' > run.sh; ett search --megatron-args run.sh --model llama3-8b layers=2 --quiet
seq=512 ...lora_rank=32...

# --plan takes launch scripts, too. A trainer's file gives batch and precision; its degrees are searched.

$ echo '--num-layers 8 --hidden-size 1024 --num-attention-heads 16 --vocab-size 32000 --seq-length 2048 --fp16 --global-batch-size 32 --tensor-model-parallel-size 4 --nproc-per-node 8' > flags; ett search --megatron-args flags --quiet > a; ett search --plan flags --quiet > b; cmp a b; printf '[training]\nseq_len = 1024\nlocal_batch_size = 1\n[parallelism]\ntensor_parallel_degree = 2\n' > t.toml; W='--model llama layers=8 hidden=1024 heads=8 vocab=32000'; ett search --plan t.toml $W --devices 8 --quiet; ett search --plan t.toml $W --devices 8 tp=2 --quiet; ett search --plan t.toml $W --devices 8 --fix tp=4 --quiet; ett search --plan t.toml $W --vary devices=8,4 --global-batch 8 --quiet; for d in 8,4 8,16,9 8,x; do ett search --plan t.toml $W --vary devices=$d; done; ett search --plan t.toml $W
seq=1024 stack=torchtitan_eager:operator_policy=false pp=2 dp=4 zero=3 reshard=false global_batch=4
seq=1024 tp=2 ...stack=torchtitan_eager... global_batch=4
seq=1024 tp=4 ...stack=torchtitan_eager... global_batch=4
seq=1024 ...stack=torchtitan_eager... global_batch=8
ett: search: give --global-batch N
ett: search: give --global-batch N
ett: search: 'devices' must be integers from 1 to 16777216, got 'x'
ett: t.toml: data_parallel_shard_degree = -1 takes the ranks that are left; give dp=N, or --devices N to `ett search`
?1

# A search of DeepSpeed's file needs the length and the devices, and names the fields of the file that it leaves out.

$ echo '{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}' > ds.json; S='ett search --plan ds.json --model llama layers=8 hidden=1024 heads=8 vocab=32000'; $S --seq 2048 --devices 4 --where 'zero == 2' 2>/dev/null | grep -e '^  seq' -e leaves; $S --seq 2048 --devices 4 --where 'zero == 2' offload_gradients=1 --fix offload_optimizer=1 --vary bucket_bytes=5e8,1e9 2>/dev/null | grep -e '^  seq' -e leaves; $S --seq 2048; $S --seq 2048 --vary devices=4,8; $S --devices 4; ett search --model llama3-8b
  seq=2048 ...gradient_dtype=bf16 dp=4 zero=2 global_batch=32 gradient_all_reduce=true...
  note: the search leaves these fields of the file at their defaults; add those to keep: offload_gradients=1 offload_optimizer=1 bucket_bytes=1000000000
  seq=2048 ...zero=2 offload_gradients=1 offload_optimizer=1 global_batch=32 ...
ett: search: give --devices N, or several numbers with --vary devices=64..1024
ett: search: give --global-batch N
ett: search: give --seq N
ett: search: give --devices N, or several numbers with --vary devices=64..1024; --global-batch N; --seq N
?2

$ echo '{"train_batch_size": 8, "zero_optimization": {"stage": 1}}' > ds.json; ett search --plan ds.json; echo $?; ett search --plan ds.json --megatron-args ds.json --model llama; echo $?; echo '{"bf16": {"enabled": true}}' > ds.json; ett search --plan ds.json --model llama3-8b --devices 8 --seq 2048; ett search --plan ds.json --model llama3-8b --devices 8 --seq 2048 --global-batch 16 --quiet; ett search --plan nosuch.json --model llama3-8b
ett: search: --plan needs --model: the file does not describe the model
2
ett: search: give --megatron-args or --plan, not both; --plan reads launch scripts, too
2
ett: search: give --global-batch N
seq=2048 ...gradient_dtype=bf16... global_batch=16...
ett: cannot read 'nosuch.json': ...
?1

# DeepSpeed all-reduces gradients at stages 1 and 2, in the type of the weights.

$ echo '--deepspeed --bf16 --zero-stage 0 --num-layers 8 --hidden-size 1024 --num-attention-heads 16 --vocab-size 32000 --seq-length 2048 --global-batch-size 32 --num-gpus 8' > ds; for z in zero=2 --where=zero==2 --where=zero==3; do ett search --megatron-args ds $z --quiet; done
seq=2048 ...gradient_dtype=bf16 ...zero=2 global_batch=32 gradient_all_reduce=true...
seq=2048 ...zero=2 global_batch=32 gradient_all_reduce=true reduce_dtype=bf16...
seq=2048 ...zero=3 global_batch=32 reduce_dtype=bf16...

# A length in thousands is compared with the power of 2.

$ ett search --model llama3-8b --devices 8 --global-batch 8 --seq 8k tp=8 2>/dev/null | grep Ki
  note: seq = 8000; 8Ki is 8192

# Dollars come with the price of a device and hour that they follow from; a plan may set another.

$ W='--model llama3-8b --devices 8 --global-batch 8 --seq 2048 tp=1 pp=1 zero=1 --tokens 1e12 --objective dollars'; ett search $W --vary cluster=dgx_h100,dgx_b200 --each 2>/dev/null | awk '/USD\/h/ { for (i = 1; i <= NF; i++) if ($i == "USD/h") c = i } /^dgx/ { print $1, $(c + 1) }' | sort; ett search $W price_per_device_hour=2.5 2>/dev/null | grep -c ' 2\.50 ' | sed 's/[1-9].*/2.50 in each row/'
dgx_b200 14.24
dgx_h100 6.88
2.50 in each row

$ ett search --model llama3-8b --devices 8 --global-batch 8 --seq 2048 --tokens 1e12 --objective dollars --vary cluster=dgx_h100,perlmutter
ett: search: the objective 'dollars' needs a price, and the cluster perlmutter has none: give price_per_device_hour for all clusters, or a cluster file with price_per_gpu_hour
?1

# Dollars and energy are those of the devices in use; the rest of the last node may be billed, too.
# The first row's number of devices stands beside its plan only.
$ for d in 8,12,20 4,8,16 12,20; do ett search --model llama2-7b --cluster dgx_h100 --global-batch 240 --seq 512 tp=1 pp=1 cp=1 zero=1 recompute=full --tokens 1e11 --vary devices=$d --each --objective dollars 2>/dev/null | grep 'last node'; done; ett search --model llama2-7b --cluster dgx_h100 --global-batch 48 --seq 512 tp=1 pp=1 cp=1 zero=1 recompute=full --devices 12 2>/dev/null | grep -c 'leave out'
dollars and energy leave out the other devices of the last node: 12 of 16, 20 of 24 devices
  the last node is not full: a node has 8 devices. Dollars and energy leave out 4 of them. Compare with 8 devices
dollars and energy leave out the other devices of the last node: 20 of 24 devices
0
?1

# Messages that say what to write instead.
$ S='ett search --model llama3-8b --devices 8 --global-batch 8 --seq 8192'; for w in 'tp = 4' 'tp == 4 and pp=1' 'tp ~= = 4' 'tp == '; do $S --where "$w"; done; for w in '--vary hidden=4096,8192' '--fix hidden=4096' '--fix nosuch=1' '--fix devices=8' '--vary tq=1,2'; do $S $w; echo $?; done
ett: search: where 'tp = 4': write == in place of =, as in tp == 4
ett: search: where 'tp == 4 and pp=1': write == in place of =, as in tp == 4
ett: search: where 'tp ~= = 4': write == in place of =, as in tp == 4
ett: search: where 'tp == ': the expression is incomplete
ett: search: --vary: 'hidden' is a hyper-parameter; `ett sweep` varies these
2
ett: search: --fix: 'hidden' is a hyper-parameter; write 'hidden=4096' alone
2
ett: search: unknown field 'nosuch'; `ett search --help` lists them
2
ett: search: unknown field 'devices'; did you mean '--devices'?
2
ett: search: unknown field 'tq'; did you mean 'tp'?
2

# An equals sign in a text is part of it.
$ ett search --model llama3-8b --devices 8 --global-batch 8 --seq 8192 --where "stack == 'a=b'" 2>&1 | grep -o 'no layout'
no layout

The objectives seq and devices compare several values; with one value there is nothing to choose.
$ for x in seq "seq --seq 8192" "seq --vary seq=8192"; do ett search --model llama3-8b --devices 8 --global-batch 8 stack=megatron --quiet --objective $x 2>&1 | cut -c-95; done
ett: search: the objective 'seq' compares several values: --vary seq=8Ki,16Ki,32Ki
ett: note: the objective 'seq' compares several values: --vary seq=8Ki,16Ki,32Ki
seq=8192 ...
ett: note: the objective 'seq' compares several values: --vary seq=8Ki,16Ki,32Ki
seq=8192 ...
$ ett search --model llama3-8b --devices 8 --global-batch 8 stack=megatron --quiet --objective seq --vary seq=8Ki,16Ki | cut -c-9
seq=16384

# The help says which fields the short titles of columns are.

$ ett search --help | grep -A2 '^Short titles'
Short titles of columns: mb (micro_batch), m (micro_batches), recomp (recompute),
...
