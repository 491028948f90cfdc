$ ett compare --model gpt --cluster dgx_h100 layers=24 hidden=2048 heads=16 seq=2048 vocab=51200 pp=2 tp=4 dp=2 micro_batch=2 micro_batches=8
# 16 devices, cluster dgx_h100; utilization 0.60 and overlap 1.00 in the ledger and the simple model
...ledger  simple model  ett predict
FLOP of the step...
...
bound by...
...
  attention scores: 7.92e+13 FLOP in the ledger (whole square, no causal mask), none in the simple model
...

$ ett compare --model gpt layer=3
ett: compare: unknown field 'layer'; did you mean 'layers'?
?2

$ ett picture -o new/picture.html && ls new
wrote new/picture.html
picture.html

$ ett picture --layers 5 --pp 2
ett: picture: layers = 5 must be divisible by pp = 2
?1

$ ett compare --model gpt --cluster dgx_h100 layers=24 hidden=2048 heads=16 seq=2048 vocab=51200 pp=2 tp=4 dp=2 micro_batch=2 micro_batches=8 --csv > c; grep '^# ' c; grep -c '^view,\|,view' c; ett compare --model gpt layers=2 hidden=256 heads=4 vocab=1000 seq=128 micro_batches=2 --csv --table zz
# values
# reasons
# views
1
ett: --table: no table 'zz'; there are values, reasons, views
?2

# Two sides: --quiet prints their steps, and options of the ledger and the simple model are refused.
$ W='--model llama layers=2 hidden=1024 heads=8 vocab=32000 seq=1024 micro_batches=2'; ett compare $W tp=1 tp=2 --quiet > a; for t in 1 2; do ett predict $W tp=$t --quiet; done | cmp a -; ett compare $W tp=1 tp=2 --overlap 0.5; ett compare $W tp=1 tp=2 --utilization 0.5
ett: compare: --overlap applies to the ledger and the simple model only: give no sides
ett: compare: --utilization applies to the ledger and the simple model only: give no sides
?2

$ ett compare --model mamba2-2.7b --cluster dgx_h100 seq=2048 micro_batches=8
ett: compare: the ledger and the simple model describe only decoders of attention and MLPs; mamba2-2.7b also has the product 'linear_mixer_in'
?1

$ echo '{"model_type": "nemotron-nas", "hidden_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 1000, "block_configs": [{"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 2}}, {"attention": {"no_op": true}, "ffn": {"ffn_mult": 4}}]}' > nas.json; ett predict --model nas.json seq=512 micro_batches=2 tp=2 | head -1; ett compare --model nas.json seq=512 micro_batches=2
nemotron-nas (nas.json) (...
ett: compare: the ledger and the simple model describe only layers of equal widths; those of nemotron-nas (nas.json) differ (layer_fields)
?1

Two sides stand line by line.
A comparison says which side fits its devices.
$ ett compare --model llama3-70b seq=8192 tp=8 pp=4 dp=8 global_batch=256 dgx_h100 dgx_b200 | grep -E '^(memory GB|fits)'
memory GB ...
fits ... no ... yes

$ ett compare --model llama3-70b seq=8192 tp=8 pp=4 dp=8 global_batch=256 dgx_h100 dgx_b200 --json | grep -A3 '"fits"'
  "fits": {
    "a": false,
    "b": true
  },

$ ett compare --model llama layers=8 hidden=1024 heads=8 vocab=32000 dgx_h100 dgx_b200 seq=1024 micro_batches=4 tp=2
...A...B...B - A
cluster...dgx_h100...dgx_b200
step ms...
...
MFU %...
...
USD per billion tokens...
...
linear_up ... time per run x ...
...
weights ...
...

$ ett compare --model llama layers=8 hidden=1024 heads=8 vocab=32000 'tp=2 dp=4' 'tp=4 dp=2' seq=1024 global_batch=8 --json
{
  "fields": [
...
      "name": "tp"
...

$ ett compare --model llama layers=8 hidden=1024 heads=8 vocab=32000 seq=1024 micro_batches=4 tp=2 tp=4 | head -2
...A...B...B - A
tp...2...4

$ ett compare --model llama layers=8 hidden=1024 heads=8 vocab=32000 seq=1024 micro_batches=4 tp=2 tp=4 tp=8
ett: compare: give two sides, such as dgx_h100 dgx_b200, 'tp=8 dp=64' 'tp=4 dp=128' or two launch scripts, got 3
?2

$ ett compare --model llama layers=8 hidden=1024 heads=8 vocab=32000 dgx_h100 seq=1024 micro_batches=4
ett: compare: give two sides, such as dgx_h100 dgx_b200, 'tp=8 dp=64' 'tp=4 dp=128' or two launch scripts, got 1
?2

$ ett compare --model llama layers=2 hidden=1024 heads=8 vocab=32000 seq=8k tp=1 tp=2 micro_batches=2 | tail -1; ett compare --model llama layers=2 hidden=1024 heads=8 vocab=32000 seq=8192 seq=8k micro_batches=2 | tail -1; ett compare --model llama layers=2 hidden=1024 heads=8 vocab=32000 seq=8k micro_batches=2 | tail -1; ett compare --model llama layers=2 hidden=1024 heads=8 vocab=32000 seq=8k tp=1 tp=2 micro_batches=2 --json | grep 8Ki
note: seq = 8000; 8Ki is 8192
note: seq = 8000; 8Ki is 8192
note: seq = 8000; 8Ki is 8192
    "seq = 8000; 8Ki is 8192"

$ ett compare --model llama layers=2 hidden=1024 heads=8 vocab=32000 seq=1024 tp=2 tp=16 micro_batches=2; ett compare --model llama layers=2 hidden=1024 heads=8 vocab=32000 seq=1024 micro_batches=2 dgx_h10x dgx_h100
ett: side B: plan: tp = 16 must divide heads = 8...
ett: unknown cluster 'dgx_h10x'; did you mean 'dgx_h100'?
?2

Samples in a wrong unit are warned of in every output.
$ mkdir slow; printf 'tokens,width,F_dur(us),B_dur(us)\n512,1024,8840000,1183\n' > slow/MYCPU_gelu_fp32.csv; printf 'return { name = "slow", summary = "x", source = "x", gpus_per_node = 1, device = { name = "MYCPU", source = "x", peak_flops = { fp32 = 7e10, bf16 = 7e10 }, memory_bandwidth = 1.5e10, memory_bytes = 1e10 }, links = { intra = { bandwidth = 1e9, source = "x" } }, profile = "slow" }' > slow.lua; W="--cluster slow.lua --model gpt layers=4 hidden=256 heads=4 vocab=4000 dtype=fp32"; for s in "predict $W seq=512 micro_batches=1" "compare $W seq=512 micro_batches=1" "search $W --seq 512 --global-batch 1 --devices 1"; do for as in '' --json; do ett $s $as 2>/dev/null | grep -oE '(  "|warning: )the samples of gelu|"warnings"'; done; done
warning: the samples of gelu
"warnings"
  "the samples of gelu
warning: the samples of gelu
"warnings"
  "the samples of gelu
warning: the samples of gelu
"warnings"
  "the samples of gelu

Two launch scripts are two sides, and a file is the plan that sides change: each side is that of `ett predict`.
$ F='--hidden-size 1024 --num-attention-heads 8 --seq-length 1024 --vocab-size 32000 --max-position-embeddings 1024 --bf16 --nproc-per-node 8 --lr 1'; echo "$F --num-layers 4" > a.sh; echo "$F --num-layers 6 --frob 1 --tensor-model-parallel-size 2" > b.sh; ett compare --megatron-args a.sh --megatron-args b.sh --quiet > s; for f in a b; do ett predict --megatron-args $f.sh --quiet; done | cmp - s; ett compare --plan a.sh --plan 'b.sh 1 2' --quiet | cmp - s; ett compare --megatron-args a.sh --megatron-args b.sh | grep -E '^(model|layers|tp|dp|note)'; ett compare --megatron-args a.sh tp=2 tp=4 --quiet > s; for t in 2 4; do ett predict --megatron-args a.sh tp=$t --quiet; done | cmp - s; ett compare --megatron-args b.sh | grep -E 'ett predict$|devices|^note'; ett compare --plan a.sh --megatron-args b.sh
model ... a.sh ... b.sh
layers ... 4 ... 6
dp ... 8 ... 4
tp ... 1 ... 2
note: 1 flag has no effect on the step
note: not in the file: --micro-batch-size (1), --global-batch-size (one micro-batch for each replica), --nnodes (1)
note: B: unknown flags, ignored: --frob
# 8 devices, cluster dgx_h100; ...
...
note: unknown flags, ignored: --frob
note: 1 flag has no effect on the step
note: not in the file: --micro-batch-size (1), --global-batch-size (one micro-batch for each replica), --nnodes (1)
ett: compare: give --megatron-args or --plan, not both; --plan reads launch scripts, too
?2

$ echo '{"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}, "zero_optimization": {"stage": 1}}' > one.json; sed 's/1}}/2}}/' one.json > two.json; W='--model llama layers=4 hidden=1024 heads=8 vocab=32000 seq=1024 dp=8'; ett compare $W --plan one.json --plan two.json | sed -n 2p; ett compare $W --plan one.json cluster=dgx_h100 'cluster=dgx_b200 zero=3' | grep -E '^(cluster|zero|note)'; ett compare --plan one.json --plan two.json; ett compare $W --plan one.json --plan two.json tp=1 tp=2; ett compare $W --plan one.json --plan two.json --plan one.json
zero ... 1 ... 2
cluster ... dgx_h100 ... dgx_b200
zero ... 1 ... 3
note: A: the file does not name the training program; stack=transformers or stack=megatron_deepspeed adds its costs
note: not in the file: gradient_accumulation_steps (1)
note: B: the file does not name the training program; stack=transformers or stack=megatron_deepspeed adds its costs, most of the step if experts run in a loop
ett: compare: --plan needs --model: the file does not describe the model
ett: compare: the two files are the two sides already: omit 'tp=1'
ett: compare: give two sides, such as dgx_h100 dgx_b200, 'tp=8 dp=64' 'tp=4 dp=128' or two launch scripts, got 3
?2

$ W='--model llama layers=4 hidden=1024 heads=8 vocab=32000 seq=1024 micro_batches=2 recompute=full'; for m in block uniform; do ett compare $W recompute_layers=2 recompute_method=$m | grep -c 'repeat every layer'; done; ett compare $W | grep -c 'repeat every layer'
1
0
0
?1

# A side that states no stack has `plain`; other fields without a value are "-".

$ M='--model llama layers=4 hidden=512 heads=8 vocab=8000 seq=1024 micro_batches=2'; (ett compare $M dgx_h100 megatron; ett compare $M 'cp=2 cp_method=ring' cp=2) | tr -s ' ' | grep -e ^stack -e ^cp_
stack plain megatron
cp_method ring -
