"""The HTTP door for programs: Grafana, Prometheus, scripts. It only reads, and takes the questions of `wane query`.

`application` has the routes, `questions` reads what is asked, `shapes` writes the answers, `workers` lets few questions
run at a time, `metrics` and `recorded` are for Prometheus, `description` tells programs all of it (OpenAPI), `launch`
serves it by itself. Who may see what, `dashboard.door` says. Nothing here loads Streamlit.
"""
