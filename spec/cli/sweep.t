# Messages of `ett sweep`; spec/step/estimate_spec.lua checks its figures.

$ ett sweep --model llama layers=8 hidden=1024 heads=8 vocab=32000 seq=1024 global_batch=64 pp=1..4 tp=1..4 dp=1,2,4 | tail -3; ett sweep --model llama layers=8 hidden=1024 heads=8 vocab=32000 seq=1024 global_batch=64 pp=1..4 tp=1..4 dp=1,2,4 --json | grep -c step_seconds
...yes
...yes
... and 7 more (--json prints all)
28

$ ett sweep --model llama layers=8 hidden=1024 heads=8 vocab=32000 seq=1024 global_batch=64 pp=1,2 dp=4,8 --devices 8
llama on dgx_h100: 2 plans evaluated, 0 refused, best by step_seconds
.
pp  dp  micro-batches  devices ...
 1   8              8        8 ...
 2   4             16        8 ...

A plan whose fit is uncertain has its chance.
$ ett sweep --model llama3-8b --cluster dgx_h100 seq=4096 dp=8 micro_batch=1,4 global_batch=64 zero=1,2 stack=megatron | grep -oE '(yes|no|[0-9]+ %)$'; ett compare --model llama3-8b --cluster dgx_h100 seq=4096 dp=8 global_batch=64 stack=megatron zero=1 zero=2 | grep '^fits'
43 %
yes
no
no
fits ... 43 % ... yes

Hyper-parameters are swept in the same way; values that make no model count as refused.
$ ett sweep --model llama layers=8,16 hidden=1024,1000 heads=16 vocab=32000 seq=1024 global_batch=64 dp=4,8
llama on dgx_h100: 4 plans evaluated, 2 refused, best by step_seconds
first refusal: llama: heads = 16 must divide hidden = 1000, or give head_dim
.
hidden  layers  parameters  dp ...
  1024       8      0.17 B   8 ...
  1024      16      0.27 B   8 ...
  1024       8      0.17 B   4 ...
  1024      16      0.27 B   4 ...

$ ett sweep --model llama layers=8 hidden=1024 heads=16 vocab=32000 seq=1024 micro_batches=2
ett: sweep: give several values to at least one field, such as pp=1,2,4
?2

Impossible combinations are named, and none is dropped without a message.
$ ett sweep --model llama layers=8 hidden=1024 heads=8 vocab=32000 seq=1024 global_batch=64 tp=3,5 --quiet
ett: sweep: no plan is valid; the first was refused: tp = 3 must divide heads = 8; nearest are 2 and 4
?1

$ ett sweep --model llama layers=8 hidden=1024 heads=8 vocab=32000 seq=1024 global_batch=64 pp=1,2 --devices 3
ett: sweep: no plan is valid on 3 devices
?1

$ ett sweep --model llama layers=8 hidden=1024 heads=8 vocab=32000 seq=1024 global_batch=64 pp=8..1 tp=1,2
ett: sweep: pp=8..1 must be LOW..HIGH or LOW..HIGH..STEP in whole numbers, with 1 <= LOW <= HIGH
?2

$ ett sweep --model llama layers=8 hidden=1024 heads=8 vocab=32000 seq=1024 global_batch=64 pp=0..4
ett: sweep: pp=0..4 must be LOW..HIGH or LOW..HIGH..STEP in whole numbers, with 1 <= LOW <= HIGH
?2

# A range may have steps; numbers beyond integers, and lists that do not end, are refused.

$ ett sweep --model llama layers=12 hidden=1024 heads=8 vocab=32000 seq=1024 micro_batches=12 pp=2..6..2 --csv | cut -d, -f1-3 | sort >new.steps; ett sweep --model llama layers=12 hidden=1024 heads=8 vocab=32000 seq=1024 micro_batches=12 pp=2,4,6 --csv | cut -d, -f1-3 | sort | cmp - new.steps && wc -l <new.steps
4

$ ett sweep --model llama layers=12 hidden=1024 heads=8 vocab=32000 micro_batches=12 seq=1Ki..4Ki --csv | cut -d, -f8 | sort -n | xargs
seq 1024 2048 4096

$ for r in 1..99999999999999999999 4..8..0 4..8..x 4..8..1.5 1..1000000..1 1..4,8; do ett sweep --model llama layers=12 hidden=1024 heads=8 vocab=32000 seq=1024 micro_batches=12 pp=$r dp=1,2; done
ett: sweep: pp=1..99999999999999999999 must be LOW..HIGH or LOW..HIGH..STEP in whole numbers, with 1 <= LOW <= HIGH
ett: sweep: pp=4..8..0 must be LOW..HIGH or LOW..HIGH..STEP in whole numbers, with 1 <= LOW <= HIGH
ett: sweep: pp=4..8..x must be LOW..HIGH or LOW..HIGH..STEP in whole numbers, with 1 <= LOW <= HIGH
ett: sweep: pp=4..8..1.5 must be LOW..HIGH or LOW..HIGH..STEP in whole numbers, with 1 <= LOW <= HIGH
ett: sweep: pp=1..1000000..1 has more than 10000 values
ett: sweep: pp=1..4,8 must be either a range or a list of values
?2

$ ett sweep --model llama layers=8 hidden=1024 heads=8 vocab=32000 seq=1024 global_batch=64 pp=1,2 pp=4,8
ett: sweep: 'pp' is given twice: '1,2' and '4,8'
?2

$ ett compare --model llama layers=8 layers=9
ett: compare: 'layers' is given twice: '8' and '9'
?2

$ ett optimize dp=1 dp=2
ett: optimize: 'dp' is given twice: '1' and '2'
?2

$ ett sweep --model llama layers=2 hidden=1024 heads=8 vocab=32000 seq=4k,8k micro_batches=2 | sed -n 2,3p
note: seq = 4000; 4Ki is 4096
note: seq = 8000; 8Ki is 8192

$ ett sweep --model llama layers=2,4 hidden=1024 heads=8 vocab=32000 seq=8k micro_batches=2 | grep -c note:; ett sweep --model llama layers=2 hidden=1024 heads=8 vocab=32000 seq=4096 tp=1,2 micro_batches=2 | grep -c note:; ett sweep --model llama layers=2 hidden=1024 heads=8 vocab=32000 seq=8k tp=1,2 micro_batches=2 --json | grep -c 8Ki
1
0
1

The plan of a file is read anew for each combination: every row is that of `ett predict` with the same words.
$ F='--num-layers 4 --hidden-size 1024 --num-attention-heads 8 --seq-length 1024 --vocab-size 32000 --max-position-embeddings 1024 --bf16 --nproc-per-node 8 --frob 1'; echo "$F" > flags; ett sweep --megatron-args flags tp=1,2,16 micro_batch=1,2 layers=2,4 | grep -vE '^ +[248] '; ett sweep --megatron-args flags tp=2,4 micro_batch=1,2 --csv --table rows > all; ett predict --megatron-args flags tp=2 micro_batch=2 --quiet | cut -c1-12 > step; grep -cF -f step all; ett sweep --megatron-args flags tp=2,4 dp=2,4 --json | grep -c '"devices": 8'
flags on dgx_h100: 8 plans evaluated, 4 refused, best by step_seconds
first refusal: flags: tp * pp * cp = 16 must divide its 8 devices; give dp=N for another number
note: unknown flags, ignored: --frob
note: not in the file: --global-batch-size (one micro-batch for each replica), --nnodes (1)
.
layers  micro_batch  tp  parameters  micro-batches  devices ...
1
2

$ printf '[training]\nseq_len = 1024\nlocal_batch_size = 1\nunread = 3\n[parallelism]\ntensor_parallel_degree = 2\n' > t.toml; W='--model llama --plan t.toml layers=2 hidden=1024 heads=8 vocab=32000'; ett sweep $W dp=2,4 | head -4; for d in 2 4; do ett predict $W dp=$d --quiet | cut -c1-12; done > a; ett sweep $W dp=2,4 --csv --table rows | grep -cF -f a; ett sweep --plan t.toml tp=1,2; ett sweep --plan t.toml --megatron-args t.toml tp=1,2; ett sweep --megatron-args t.toml tp=1,2; ett sweep $W dp=2; ett sweep $W tp=1,2
llama on dgx_h100: 2 plans evaluated, 0 refused, best by step_seconds
note: not in the file: global_batch_size (one local batch for each replica), mixed_precision_param (bfloat16)
note: fields of training that are not modelled: unread
.
2
ett: sweep: --plan needs --model: the file does not describe the model
ett: sweep: give --megatron-args or --plan, not both; --plan reads launch scripts, too
ett: t.toml: this is a configuration of torchtitan; `ett predict` reads it with --plan
ett: sweep: give several values to at least one field, such as pp=1,2,4
ett: t.toml: data_parallel_shard_degree = -1 takes the ranks that are left; give dp=N...
?1

# A field that an architecture file declares as a list has one value.
$ printf 'local blocks = require "ett.model.blocks"\nreturn { schema = { depths = { "list" } }, build = function(h) h.layers = h.depths[1] + h.depths[2]; return blocks.decoder(h, table.unpack(blocks.dense_layers(h))) end }\n' > d.lua; ett sweep --model d.lua layers=1 depths=2,6 hidden=1024 heads=8 vocab=32000 seq=1024 micro_batches=1 tp=1,2 | head -1; ett predict --model d.lua layers=1 depths=2,6 hidden=1024 heads=8 vocab=32000 seq=1024 micro_batches=1 | head -1
d on dgx_h100: 2 plans evaluated, 0 refused, best by step_seconds
d (166.23 M parameters) on 1 x H100-SXM-80GB (dgx_h100)
