--- Squared ReLU (So et al. 2021): an operator of your own, found by its name beside the script.
local op = { name = "relu2", summary = "squared ReLU", schema = { tokens = "count", width = "count" } }

function op.shape(c) return { tokens = c.micro_batch * c.seq // c.cp, width = c.ffn // c.tp } end


function op.flops(s) return 2.0 * s.tokens * s.width end

--- Forward reads x and writes y; backward reads x and dy and writes dx. 16 bits an element.
function op.bytes(s, _, pass) return (pass == "backward" and 6.0 or 4.0) * s.tokens * s.width end

function op.activation_bytes(s) return 2.0 * s.tokens * s.width end

return op
