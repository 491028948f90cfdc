--- Factors of published_factors.lua fitted without one source each, by spec/bench/support/fit_published.lua.
return { factors = {}, rows = {} }
