"""Costs against published comparisons, areas of dies and bills of materials."""
