raise ImportError("kvmodel.compare was renamed: from kvmodel.comparison import compare_case, as_json, Comparison")
