"""Command lines as projects' documentation and ordinary work have them: nearly all only look or work in the project."""

from __future__ import annotations

from lockgate.core.ruling.effects.activity import NO_ACTIVITY
from lockgate.core.ruling.effects.effect import Severity
from lockgate.core.ruling.effects.project import NO_PROJECT, Project
from lockgate.core.ruling.effects.shell_walk import read_command

KNOWN = Project(
    root="/w/shop",
    folder="/w/shop",
    home="/home/ada",
    packages=frozenset({"requests", "flask", "lodash", "react", "shop"}),
    remotes={"origin": "git@forge.example:shop/shop.git"},
    tasks=frozenset({"seed"}),
    programs=frozenset({"shopctl"}),
)

LINES = r"""
ls -la
ls src tests 2>/dev/null | head
cat README.md
cat pyproject.toml setup.cfg 2>/dev/null
head -50 CHANGELOG.md
tail -n 20 logs/app.log
tail -f logs/app.log | grep ERROR
less +G logs/app.log
sed -n '10,40p' src/app.py
sed -n "/^def main/,/^def /p" src/app.py
awk '{print $1}' access.log | sort | uniq -c | sort -rn | head
awk -F: '$3 > 100 {print $1 > "/dev/stderr"}' data.txt
grep -rn "TODO" src --include=*.py
grep -q '^.env$' .gitignore || echo .env >> .gitignore
rg -n "class .*Error" -g '*.ts'
rg --files | wc -l
find . -name '*.pyc' -not -path './.venv/*'
find . -name __pycache__ -type d -exec rm -rf {} +
find src -type f -name '*.orig' -delete
find . -maxdepth 2 -type f | xargs wc -l | tail -1
fd -e py | head
tree -L 2 -I node_modules
wc -l $(git ls-files '*.py')
diff -u a.txt b.txt
diff <(ls a) <(ls b)
du -sh * | sort -h
df -h .
ps aux | grep node | grep -v grep
lsof -i :3000
which python3 node npm
command -v docker >/dev/null && docker --version
python3 --version; node --version; npm --version
uname -a && whoami && pwd
date +%F
env | grep PATH
printenv HOME
echo $PATH
echo "done: $?"
printf '%s\n' one two three
export PYTHONPATH=src
export NODE_ENV=test && npm test
jq '.scripts' package.json
jq -r '.dependencies | keys[]' package.json | sort
yq '.services' docker-compose.yml
xxd -l 64 image.png
file dist/*.whl
base64 -d < token.test.txt | head -c 20
git status
git status -sb && git diff --stat
git log --oneline -20
git log -p --follow -- src/app.py
git diff HEAD~1 -- src
git show HEAD --stat
git blame -L 10,20 src/app.py
git branch -a
git branch -vv
git remote -v
git tag -l 'v*' --sort=-v:refname | head -3
git stash && git pull --rebase && git stash pop
git fetch origin && git log --oneline main..origin/main
git checkout -b feature/cart
git switch main
git restore --staged src/app.py
git add -A && git commit -m "Fix rounding in cart; add test"
git commit --amend --no-edit
git reset --soft HEAD~1
git reset --hard origin/main
git merge --no-ff feature/cart
git rebase -i HEAD~3
git cherry-pick abc1234
git revert --no-edit HEAD
git tag -a v1.2.0 -m "Release 1.2.0"
git clean -fd
git rm --cached config.json
git mv old.py new.py
git worktree add ../shop-fix fix
git submodule update --init --recursive
git config user.name
git config --local user.email "ada@shop.example"
git check-ignore -v .env
git ls-files | grep -v test
git -C packages/api log -1 --format=%H
git bisect start && git bisect bad && git bisect good v1.1.0
git describe --tags --always --dirty
git archive --format=tar HEAD -o dist/src.tar
pip install -e .
pip install -e ".[dev,test]"
pip install -r requirements.txt -r requirements-dev.txt
pip install requests flask
pip install --upgrade pip setuptools wheel
pip install pytest pytest-cov ruff mypy
pip install --group dev -e .
pip list --outdated
pip show requests
pip freeze > requirements.lock
pip check
python -m pip install --upgrade build twine
python -m venv .venv && source .venv/bin/activate
. venv/bin/activate && pip install .
python -m build
python -m pytest -x -q tests/test_cart.py::test_total
python -m unittest discover -s tests
python -m mypy src
python -m http.server 8000 --bind 127.0.0.1
python setup.py develop
python manage.py migrate
python manage.py runserver
python scripts/seed.py --count 10
python -c "import shop; print(shop.__version__)"
python3 -c 'import sys; print(sys.version)'
python -m json.tool < data.json
python -m timeit -s 'import re' 're.match("a", "a")'
pytest
pytest -n auto --cov=shop --cov-report=term-missing
pytest -k "cart and not slow" --lf
coverage run -m pytest && coverage report -m
tox -e py312,lint
nox -s tests
ruff check --fix . && ruff format .
black --check src tests
isort --profile black .
flake8 src
mypy --strict src
pyright
pre-commit run --all-files
pylint shop
bandit -r src
sphinx-build -b html docs docs/_build
mkdocs serve
make
make -j4 test
make lint VERBOSE=1
make clean && make all
just test
task build
uv sync --all-extras
uv run pytest -q
uv run python -m shop
uv pip install -e .
uv lock --upgrade-package requests
uv venv --python 3.12
uvx ruff check .
poetry install --with dev
poetry run pytest
poetry lock --no-update
poetry add --group dev pytest-asyncio
pipenv run python app.py
hatch run test
npm ci
npm install
npm install --save-dev eslint prettier
npm run build
npm run dev -- --port 4000
npm test -- --watch=false
npm start
npm outdated
npm audit
npm ls --depth=0
npm view react version
npm pack --dry-run
npm version patch --no-git-tag-version
npx eslint . --fix
npx prettier --write src
npx tsc --noEmit
npx vitest run
npx jest --coverage
npx playwright test
yarn
yarn install --frozen-lockfile
yarn build && yarn test
yarn add react
pnpm install
pnpm -r build
pnpm --filter web dev
bun install && bun test
node index.js
node --test
node -e "console.log(require('./package.json').version)"
NODE_OPTIONS=--max-old-space-size=4096 npm run build
deno test --allow-read
tsc -p tsconfig.json
cargo build --release
cargo test -- --nocapture
cargo clippy --all-targets -- -D warnings
cargo fmt --check
cargo run --example demo
cargo doc --open
RUST_BACKTRACE=1 cargo test
go build ./...
go test ./... -race -count=1
go vet ./... && gofmt -l .
go mod tidy
go run ./cmd/server
golangci-lint run
mvn -q test
./mvnw package -DskipTests
./gradlew build
gradle test --info
dotnet build && dotnet test
cmake -S . -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build -j
ctest --test-dir build --output-on-failure
./configure --prefix=/usr/local && make
bundle install && bundle exec rspec
bundle exec rubocop -a
rake db:migrate
composer install && vendor/bin/phpunit
mix test
swift build
docker build -t shop:dev .
docker compose up -d
docker compose logs -f web
docker compose exec web python manage.py migrate
docker compose down
docker ps -a
docker logs --tail 50 shop-web-1
docker run --rm -v "$PWD":/src -w /src node:22 npm test
docker images | grep shop
kubectl get pods -n shop
kubectl describe pod web-0
kubectl logs -f deploy/web --tail=100
kubectl config current-context
kubectl apply -f k8s/ --dry-run=client
helm template charts/shop
helm lint charts/shop
terraform init && terraform plan
terraform fmt -recursive
terraform validate
aws s3 ls s3://shop-assets/
aws sts get-caller-identity
aws ec2 describe-instances --region eu-west-1
gcloud config list
gh pr list
gh pr view 12 --comments
gh run list --limit 5
gh issue view 7
shellcheck scripts/*.sh
bash -n scripts/deploy.sh
bash scripts/build.sh
./scripts/test.sh --fast
chmod +x scripts/build.sh
chmod 600 config.json
mkdir -p src/cart tests/cart && touch src/cart/__init__.py
mkdir -p ~/.venvs
deactivate
workon shop
LD_LIBRARY_PATH=build/lib ./build/shop
cp config.example.toml config.toml
cp .env.example .env
mv src/old.py src/new.py
rm -f dist/*.whl
rm -rf build dist *.egg-info .pytest_cache
rm -rf node_modules package-lock.json && npm install
ln -s ../shared config/shared
sed -i 's/foo/bar/g' src/app.py
sed -i.bak -e 's/1.0/1.1/' setup.cfg && rm setup.cfg.bak
perl -pi -e 's/colour/color/' docs/guide.md
echo "line" >> notes.txt
echo '{}' > /tmp/empty.json
cat > src/new.py <<'EOF'
tee -a build.log < out.txt
tar czf dist/shop.tar.gz src
tar xzf vendor/lib.tar.gz -C vendor
unzip -l dist/shop.whl
patch -p1 < fix.patch
for f in tests/*.py; do echo "$f"; done
for i in 1 2 3; do pytest -q tests/test_cart.py || break; done
while read -r line; do echo "$line"; done < list.txt
if [ -f package.json ]; then npm test; fi
[ -d .venv ] || python3 -m venv .venv
test -f .env && echo present
set -euo pipefail; make test
cd packages/api && npm test && cd -
(cd web && npm run build)
time make test 2>&1 | tail -5
timeout 60 pytest -q
nohup npm start > server.log 2>&1 &
sleep 2; curl -s http://localhost:8000/health
curl -s -X POST -d '{"a":1}' http://127.0.0.1:3000/api/cart
curl -sf localhost:8080/metrics | head
kill %1
kill $(lsof -t -i:3000)
pkill -f "node server.js"
sqlite3 db.sqlite3 'select count(*) from orders'
sqlite3 dev.db < schema.sql
psql -d shop_dev -c 'select 1'
psql shop_dev -f migrations/001.sql
createdb shop_test
redis-cli ping
flask --app shop run --debug
uvicorn shop.main:app --reload
alembic upgrade head
celery -A shop worker -l info
jupyter nbconvert --to notebook --execute demo.ipynb
shopctl --help
shopctl migrate
make seed
systemctl status nginx
journalctl -u nginx -n 50 --no-pager
crontab -l
ip addr show
ping -c 1 localhost
openssl rand -hex 32
openssl x509 -in cert.pem -noout -dates
ssh-keygen -lf key.pub
sha256sum dist/*
hyperfine 'make test'
convert logo.png -resize 50% logo-small.png
ffmpeg -i in.mp4 -vf scale=640:-1 out.mp4
pandoc README.md -o README.html
brew install jq
rustup update stable
asdf install
direnv allow
hatch fmt
hatch test
hatch env create
dotenv run -- python foo.py
dotenv -f .env.local run npm start
zcat access.log.gz | awk '{print $1}' | sort | uniq -c
gunzip -c dump.sql.gz > dump.sql
tar xzf x.tar.gz
gunzip data.gz
xz -dc x.tar.xz | tar x
zcat a.gz | head
gzip -dk a.gz
unzip -l a.zip
7z x a.7z
7z a out.7z src
while read -r f; do wc -l "$f"; done < files.txt
while IFS= read -r line; do export "$line"; done < .env
export $(grep -v '^#' .env | xargs)
wc -l < .env
grep FEATURE < .env
ssh-add - < ~/.ssh/id_rsa
docker login -u me --password-stdin < token.txt
find . -name '*.pyc' -delete
find src -name '*.py' -exec wc -l {} +
find / -name 'libssl*' 2>/dev/null
TEST_CMD="npm test" make ci
RUNNER=ubuntu-latest act
EDITOR=vim git commit
CC=/opt/homebrew/bin/gcc-13 make
GIT_PAGER=cat git log
GIT_TERMINAL_PROMPT=0 git fetch
GIT_TRACE=1 git fetch
GIT_DIR=~/.dotfiles git status
SLACK_HOOK=https://hooks.slack.com/x ./notify.sh
python -c 'import os; os.remove("build/x")'
python -c "import shutil; shutil.rmtree('dist')"
node -e 'require("fs").rmSync("dist",{recursive:true})'
perl -pi -e 's/a/b/' f.txt
ruby -e 'puts 1'
python3 -c 'open("x.txt","w").write("/etc")'
nginx -t -c conf/nginx.conf
git log -p
true | make x
echo y | apt-get --help
SHELL=/bin/bash make
python3 -c 'import json;print(json.load(open("package.json"))["version"])'
make lint | tee /tmp/log
rm -f x | true
psql -f x.sql < /dev/null
GIT_SEQUENCE_EDITOR=: git rebase -i HEAD~2
ESLINT_FILTER=src npm test
""".strip().splitlines()

# These reach out by what they are for.
MAY_REACH_OUT: set[str] = set()


def severities(project: Project) -> dict[str, Severity]:
    found = {}
    for line in LINES:
        text = line + "\nx = 1\nEOF\n" if line.endswith("<<'EOF'") else line
        found[line] = max(each.severity for each in read_command(text, "command", project, NO_ACTIVITY))
    return found


def test_ordinary_command_lines_look_or_work_here() -> None:
    found = severities(KNOWN)
    assert len(found) >= 200
    graver = {line: severity for line, severity in found.items() if severity > Severity.WORKS_HERE}
    assert len(graver) <= 0.05 * len(found), graver
    assert not {line for line, severity in graver.items() if severity is Severity.OPENS_A_DOOR}


def test_no_ordinary_command_line_opens_a_door_where_nothing_is_known_of_the_project() -> None:
    graver = {line for line, severity in severities(NO_PROJECT).items() if severity is Severity.OPENS_A_DOOR}
    assert not graver


def test_commands_that_only_look_are_told_from_work() -> None:
    found = severities(KNOWN)
    looking = "ls -la|git log --oneline -20|kubectl get pods -n shop|rg --files | wc -l|pip show requests|crontab -l"
    working = 'pytest|npm ci|git add -A && git commit -m "Fix rounding in cart; add test"|make'
    assert all(found[line] is Severity.LOOKS for line in looking.replace("rg --files | wc -l|", "").split("|"))
    assert all(found[line] is Severity.WORKS_HERE for line in working.split("|"))
